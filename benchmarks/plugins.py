"""The overhead of a node that a plug-in runs: in C, with opaque types, in numba, cffi and Python.

    python benchmarks/plugins.py

Models are sequences of nodes on four numbers.  The time of one node is (invoke() of 500 nodes - invoke() of 4) / 496,
from minimum times measured in turn.  C needs a compiler, numba and cffi their packages.  The outputs of C nodes have
guard bands, which are checked after each run; "four outputs" shows the cost of three more bands.
"""
import ctypes
import importlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import _common

import pylite
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder

SOURCE = """
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"
static TfLiteStatus Prepare(TfLiteContext *c, TfLiteNode *n) { return kTfLiteOk; }
static TfLiteStatus Invoke(TfLiteContext *c, TfLiteNode *n) { return kTfLiteOk; }
TFL_CAPI_EXPORT const TfLiteRegistration *Classic(void) {
  static const TfLiteRegistration r = {0, 0, Prepare, Invoke, 0, 0, "Node", 1, 0, 0, 0};
  return &r;
}
static TfLiteStatus Opaque(TfLiteOpaqueContext *c, TfLiteOpaqueNode *n) { return kTfLiteOk; }
TFL_CAPI_EXPORT TfLiteOperator *Operator(void) {
  TfLiteOperator *op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Node", 1, 0);
  TfLiteOperatorSetPrepare(op, Opaque);
  TfLiteOperatorSetInvoke(op, Opaque);
  return op;
}
static TfLiteStatus DelegatePrepare(TfLiteContext *c, TfLiteDelegate *d) {
  TfLiteIntArray *plan;
  TF_LITE_ENSURE_STATUS(c->GetExecutionPlan(c, &plan));
  TfLiteRegistration r = *Classic();
  for (int i = 0; i < plan->size; i++) {
    int one[2] = {1, i};
    TF_LITE_ENSURE_STATUS(c->ReplaceNodeSubsetsWithDelegateKernels(c, r, (TfLiteIntArray *)one, d));
  }
  return kTfLiteOk;
}
TfLiteDelegate *tflite_plugin_create_delegate(const char *const *k, const char *const *v, size_t n,
                                              void (*report)(const char *)) {
  static TfLiteDelegate d;
  d.Prepare = DelegatePrepare;
  return &d;
}
void tflite_plugin_destroy_delegate(TfLiteDelegate *d) {}
"""


class Node:
    """An op in Python that does nothing."""

    def __init__(self, options):
        pass

    def invoke(self, x, *y):
        pass


def model(count, outputs):
    m = ModelBuilder()
    x = first = m.tensor("x", (4,))
    for i in range(count):
        made = [m.tensor(f"y{i}.{k}", (4,)) for k in range(outputs)]
        m.operator("Node", [x], made, custom_options=b"")
        x = made[0]
    m.inputs([first])
    m.outputs([x])
    return m.build()


def node_seconds(op, outputs=1, delegate=None):
    """Seconds that one more node adds to invoke()."""
    ops = resolver.MutableOpResolver()
    ops.add_custom("Node", op)
    runs = []
    for count in (4, 500):
        interpreter = pylite.Interpreter(model_content=model(count, outputs), op_resolver=ops,
                                         experimental_delegates=[delegate] if delegate else None)
        interpreter.allocate_tensors()
        runs.append(interpreter.invoke)
    least, start = [1e9, 1e9], time.perf_counter()
    while time.perf_counter() - start < 0.5:
        for i, run in enumerate(runs):
            begin = time.perf_counter()
            run()
            least[i] = min(least[i], time.perf_counter() - begin)
    return (least[1] - least[0]) / 496


def compiled():
    """The path of a library with the ops and the delegate in C, or None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp())
    (folder / "node.c").write_text(SOURCE)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-w", "-I", pylite.get_include(), str(folder / "node.c"), "-o",
                    str(folder / "node.so")], check=True)
    return str(folder / "node.so")


def pointers():
    """(kind, invoke function) for every installed tool that makes function pointers."""
    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    yield "ctypes function", signature(lambda context, node: 0)
    for name in ("numba", "cffi"):
        try:
            tool = importlib.import_module(name)
        except ImportError:
            continue
        if name == "numba":
            pointer = tool.types.voidptr
            yield "numba cfunc", tool.cfunc(tool.types.int32(pointer, pointer))(lambda context, node: 0)
        else:
            yield "cffi callback", tool.FFI().callback("int(void *, void *)")(lambda context, node: 0)


def main():
    rows = []
    library = compiled()
    if library:
        (classic,) = pylite.load_custom_ops(library, ["Classic"], register=False)
        (opaque,) = pylite.load_custom_ops(library, ["Operator"], "opaque", register=False)
        rows = [("C, classic", node_seconds(classic), 0.1), ("C, four outputs", node_seconds(classic, outputs=4), 0.1),
                ("C, opaque types", node_seconds(opaque), 0.1),
                ("C, kernel of a delegate", node_seconds(classic, delegate=pylite.load_delegate(library)), 0.1)]
    rows += [(kind, node_seconds(pylite.from_pointers("Node", invoke=function)), "") for kind, function in pointers()]
    rows += [("Python class", node_seconds(Node), 1), ("Python function", node_seconds(lambda x, y: None), 1)]
    _common.print_table(("one more node", "us", "goal"),
                        [(what, f"{seconds * 1e6:.3f}", goal) for what, seconds, goal in rows])


if __name__ == "__main__":
    sys.exit(main())
