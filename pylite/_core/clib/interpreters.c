// The interpreters and signature runners of c_api.h, which wrap objects of pylite/clib.py.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "delegates.h"
#include "objects.h"

// The inputs and outputs of a subgraph.  pylite/clib.py declares the same struct, owns it, and keeps it up to date.
typedef struct pl_io {
  int num_inputs, num_outputs;
  const int *inputs, *outputs;                          // indices of tensors
  TfLiteTensor *const *input_tensors, *const *output_tensors;
  const char *const *input_names, *const *output_names; // of a signature
} pl_io;

// What an interpreter and a signature runner have in common.  object: a graph of pylite/clib.py, owned.
typedef struct pl_graph {
  PyObject *object;
  const pl_io *io;
  pl_reporter reporter;
} pl_graph;

struct TfLiteInterpreter {
  pl_graph graph;
  int num_signatures;
  const char *const *signature_keys;
};

struct TfLiteSignatureRunner {
  pl_graph graph;
};

// ---- Graphs: interpreters and signature runners ----

// Sets `graph` to own this object; false if it is NULL, or its pl_io cannot be obtained.  Needs the GIL.
static bool graph_init(pl_graph *graph, PyObject *object) {
  graph->object = object;
  if (object == NULL) return false;
  graph->io = (const pl_io *)pl_call_number(&graph->reporter, object, "io_address", "()");
  return (intptr_t)graph->io != -1;
}

// Calls a method without arguments.
static TfLiteStatus graph_call(const pl_graph *graph, const char *method) {
  pl_gil gil;
  if (graph == NULL || pl_gil_take(&gil, &graph->reporter) != 0) return kTfLiteError;
  PyObject *result = pl_call(&graph->reporter, graph->object, method, "()");
  pl_release(result);
  pl_gil_release(gil);
  return result == NULL ? kTfLiteError : kTfLiteOk;
}

// strict: only dimensions that the model leaves open may change.
static TfLiteStatus graph_resize(const pl_graph *graph, int input, const int *dims, int count, bool strict) {
  pl_gil gil;
  if (graph == NULL) return kTfLiteError;
  if (input < 0 || input >= graph->io->num_inputs || count < 0 || (count > 0 && dims == NULL)) {
    pl_report(&graph->reporter, "ResizeInputTensor: input %d with %d dimensions%s; the model has %d inputs", input,
              count, dims == NULL ? " at a null pointer" : "", graph->io->num_inputs);
    return kTfLiteError;
  }
  if (pl_gil_take(&gil, &graph->reporter) != 0) return kTfLiteError;
  PyObject *result = pl_call(&graph->reporter, graph->object, "resize", "(inii)", input, (intptr_t)dims, count, strict);
  pl_release(result);
  pl_gil_release(gil);
  return result == NULL ? kTfLiteError : kTfLiteOk;
}

// Tensor `index` of these, or NULL with a report.  side: "input" or "output".
static TfLiteTensor *tensor_of(const pl_graph *graph, TfLiteTensor *const *tensors, int count, int index,
                               const char *side) {
  if (index >= 0 && index < count) return tensors[index];
  pl_report(&graph->reporter, "there is no %s %d: the model has %d", side, index, count);
  return NULL;
}

// ---- Interpreters ----

static TfLiteInterpreter *interpreter_new(const TfLiteModel *model, const TfLiteInterpreterOptions *options,
                                          bool selected_ops) {
  static const TfLiteInterpreterOptions defaults;
  if (options == NULL) options = &defaults;
  const pl_reporter *reporter = &options->reporter;
  pl_gil gil;
  if (model == NULL) {
    pl_report(reporter, "TfLiteInterpreterCreate: the model is null");
    return NULL;
  }
  TfLiteInterpreter *interpreter = calloc(1, sizeof *interpreter);
  if (interpreter == NULL || pl_gil_take(&gil, reporter) != 0) {
    free(interpreter);
    return NULL;
  }
  interpreter->graph.reporter = *reporter;
  PyObject *object = pl_call(reporter, pl_module(), "MainGraph", "(Oininini)", model->object, options->threads,
                             (intptr_t)options->delegates, options->num_delegates, (intptr_t)options->ops,
                             options->num_ops, (intptr_t)&interpreter->signature_keys, selected_ops);
  bool ok = graph_init(&interpreter->graph, object);
  if (ok) {
    interpreter->num_signatures = (int)pl_call_number(reporter, object, "num_signatures", "()");
    ok = interpreter->num_signatures >= 0;
  }
  if (!ok) {
    pl_release(object);
    free(interpreter);
    interpreter = NULL;
  }
  pl_gil_release(gil);
  return interpreter;
}

TfLiteInterpreter *TfLiteInterpreterCreate(const TfLiteModel *model, const TfLiteInterpreterOptions *options) {
  return interpreter_new(model, options, false);
}

TfLiteInterpreter *TfLiteInterpreterCreateWithSelectedOps(const TfLiteModel *model,
                                                          const TfLiteInterpreterOptions *options) {
  return interpreter_new(model, options, true);
}

void TfLiteInterpreterDelete(TfLiteInterpreter *interpreter) {
  pl_gil gil;
  if (interpreter == NULL) return;
  if (pl_gil_retake(&gil) == 0) {
    pl_release(pl_call(&interpreter->graph.reporter, interpreter->graph.object, "close", "()"));
    pl_release(interpreter->graph.object);
    pl_gil_release(gil);
  }
  free(interpreter);
}

int32_t TfLiteInterpreterGetInputTensorCount(const TfLiteInterpreter *i) {
  return i == NULL ? 0 : i->graph.io->num_inputs;
}
int32_t TfLiteInterpreterGetOutputTensorCount(const TfLiteInterpreter *i) {
  return i == NULL ? 0 : i->graph.io->num_outputs;
}
const int *TfLiteInterpreterInputTensorIndices(const TfLiteInterpreter *i) {
  return i == NULL ? NULL : i->graph.io->inputs;
}
const int *TfLiteInterpreterOutputTensorIndices(const TfLiteInterpreter *i) {
  return i == NULL ? NULL : i->graph.io->outputs;
}

int32_t TfLiteInterpreterGetInputTensorIndex(const TfLiteInterpreter *i, int32_t index) {
  return i == NULL || index < 0 || index >= i->graph.io->num_inputs ? -1 : i->graph.io->inputs[index];
}
int32_t TfLiteInterpreterGetOutputTensorIndex(const TfLiteInterpreter *i, int32_t index) {
  return i == NULL || index < 0 || index >= i->graph.io->num_outputs ? -1 : i->graph.io->outputs[index];
}

TfLiteTensor *TfLiteInterpreterGetInputTensor(const TfLiteInterpreter *i, int32_t index) {
  if (i == NULL) return NULL;
  return tensor_of(&i->graph, i->graph.io->input_tensors, i->graph.io->num_inputs, index, "input");
}

const TfLiteTensor *TfLiteInterpreterGetOutputTensor(const TfLiteInterpreter *i, int32_t index) {
  if (i == NULL) return NULL;
  return tensor_of(&i->graph, i->graph.io->output_tensors, i->graph.io->num_outputs, index, "output");
}

TfLiteTensor *TfLiteInterpreterGetTensor(const TfLiteInterpreter *i, int index) {
  pl_gil gil;
  if (i == NULL || pl_gil_take(&gil, &i->graph.reporter) != 0) return NULL;
  const intptr_t tensor = pl_call_number(&i->graph.reporter, i->graph.object, "tensor", "(i)", index);
  pl_gil_release(gil);
  return tensor == -1 ? NULL : (TfLiteTensor *)tensor;
}

TfLiteStatus TfLiteInterpreterResizeInputTensor(TfLiteInterpreter *i, int32_t input, const int *dims, int32_t count) {
  return graph_resize(i == NULL ? NULL : &i->graph, input, dims, count, false);
}

TfLiteStatus TfLiteInterpreterAllocateTensors(TfLiteInterpreter *i) {
  return graph_call(i == NULL ? NULL : &i->graph, "allocate");
}
TfLiteStatus TfLiteInterpreterInvoke(TfLiteInterpreter *i) {
  return graph_call(i == NULL ? NULL : &i->graph, "invoke");
}
TfLiteStatus TfLiteInterpreterResetVariableTensors(TfLiteInterpreter *i) {
  return graph_call(i == NULL ? NULL : &i->graph, "reset_variables");
}

static TfLiteStatus cancel(const pl_graph *graph) {
  if (graph != NULL) pl_report(&graph->reporter, "a run of pylite cannot be cancelled");
  return kTfLiteError;
}
TfLiteStatus TfLiteInterpreterCancel(const TfLiteInterpreter *i) { return cancel(i == NULL ? NULL : &i->graph); }

TfLiteStatus TfLiteInterpreterModifyGraphWithDelegate(const TfLiteInterpreter *i, TfLiteDelegate *delegate) {
  pl_gil gil;
  if (i == NULL || delegate == NULL) return kTfLiteError;
  if (pl_xnnpack_threads(delegate) >= 0) return kTfLiteOk;
  if (pl_gil_take(&gil, &i->graph.reporter) != 0) return kTfLiteError;
  PyObject *result = pl_call(&i->graph.reporter, i->graph.object, "delegate", "(n)", (intptr_t)delegate);
  pl_release(result);
  pl_gil_release(gil);
  return result == NULL ? kTfLiteDelegateError : kTfLiteOk;
}

// ---- Signature runners ----

int32_t TfLiteInterpreterGetSignatureCount(const TfLiteInterpreter *i) { return i == NULL ? 0 : i->num_signatures; }

const char *TfLiteInterpreterGetSignatureKey(const TfLiteInterpreter *i, int32_t index) {
  return i == NULL || index < 0 || index >= i->num_signatures ? NULL : i->signature_keys[index];
}

TfLiteSignatureRunner *TfLiteInterpreterGetSignatureRunner(const TfLiteInterpreter *i, const char *key) {
  pl_gil gil;
  if (i == NULL || key == NULL) return NULL;
  const pl_reporter *reporter = &i->graph.reporter;
  TfLiteSignatureRunner *runner = calloc(1, sizeof *runner);
  if (runner == NULL || pl_gil_take(&gil, reporter) != 0) {
    free(runner);
    return NULL;
  }
  runner->graph.reporter = *reporter;
  PyObject *object = pl_call(reporter, i->graph.object, "signature", "(y)", key);
  if (!graph_init(&runner->graph, object)) {
    pl_release(object);
    free(runner);
    runner = NULL;
  }
  pl_gil_release(gil);
  return runner;
}

void TfLiteSignatureRunnerDelete(TfLiteSignatureRunner *r) {
  if (r != NULL) pl_drop(r->graph.object);
  free(r);
}

size_t TfLiteSignatureRunnerGetInputCount(const TfLiteSignatureRunner *r) {
  return r == NULL ? 0 : r->graph.io->num_inputs;
}
size_t TfLiteSignatureRunnerGetOutputCount(const TfLiteSignatureRunner *r) {
  return r == NULL ? 0 : r->graph.io->num_outputs;
}
const char *TfLiteSignatureRunnerGetInputName(const TfLiteSignatureRunner *r, int32_t index) {
  return r == NULL || index < 0 || index >= r->graph.io->num_inputs ? NULL : r->graph.io->input_names[index];
}
const char *TfLiteSignatureRunnerGetOutputName(const TfLiteSignatureRunner *r, int32_t index) {
  return r == NULL || index < 0 || index >= r->graph.io->num_outputs ? NULL : r->graph.io->output_names[index];
}

// The index of a name, or -1 with a report.
static int position(const pl_graph *graph, const char *const *names, int count, const char *name, const char *side) {
  for (int i = 0; name != NULL && i < count; i++)
    if (strcmp(names[i], name) == 0) return i;
  pl_report(&graph->reporter, "the signature has no %s named %s", side, name == NULL ? "(null)" : name);
  return -1;
}

TfLiteTensor *TfLiteSignatureRunnerGetInputTensor(TfLiteSignatureRunner *r, const char *name) {
  if (r == NULL) return NULL;
  const pl_io *io = r->graph.io;
  const int i = position(&r->graph, io->input_names, io->num_inputs, name, "input");
  return i < 0 ? NULL : io->input_tensors[i];
}

const TfLiteTensor *TfLiteSignatureRunnerGetOutputTensor(const TfLiteSignatureRunner *r, const char *name) {
  if (r == NULL) return NULL;
  const pl_io *io = r->graph.io;
  const int i = position(&r->graph, io->output_names, io->num_outputs, name, "output");
  return i < 0 ? NULL : io->output_tensors[i];
}

TfLiteStatus TfLiteSignatureRunnerResizeInputTensor(TfLiteSignatureRunner *r, const char *name, const int *dims,
                                                    int32_t count) {
  if (r == NULL) return kTfLiteError;
  const int i = position(&r->graph, r->graph.io->input_names, r->graph.io->num_inputs, name, "input");
  return i < 0 ? kTfLiteError : graph_resize(&r->graph, i, dims, count, true);
}

TfLiteStatus TfLiteSignatureRunnerAllocateTensors(TfLiteSignatureRunner *r) {
  return graph_call(r == NULL ? NULL : &r->graph, "allocate");
}
TfLiteStatus TfLiteSignatureRunnerInvoke(TfLiteSignatureRunner *r) {
  return graph_call(r == NULL ? NULL : &r->graph, "invoke");
}
TfLiteStatus TfLiteSignatureRunnerCancel(TfLiteSignatureRunner *r) { return cancel(r == NULL ? NULL : &r->graph); }
