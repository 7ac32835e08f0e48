"""Lowered graphs, and results on all ISA levels."""
import numpy as np

from pylite import Model
from pylite._core import simd
from pylite.compiler import lowering
from pylite.errors import NotAllocatedError
from pylite.interpreter import Interpreter


def run(model, inputs, **options):
    """(interpreter after a run, outputs)"""
    interpreter = Interpreter(model_content=model, **options)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return interpreter, [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def lowered(model):
    model = Model(model)
    graph = model.graph.subgraphs[0]
    return lowering.lower(model, graph, [graph.tensors[i].shape for i in graph.inputs])


def check_every_isa_level(model, inputs, tensors, threads, case):
    """Assert that rewrites change neither the outputs nor any other readable tensor."""
    chosen = simd.current
    try:
        for isa_level in simd.available():
            simd.use(isa_level)
            kept, want = run(model, inputs, experimental_preserve_all_tensors=True)
            seen, got = run(model, inputs, num_threads=threads)
            assert [a.tobytes() for a in got] == [a.tobytes() for a in want], f"case {case}, ISA level {isa_level}"
    finally:
        simd.use(chosen)
    for index in tensors:
        try:
            array = seen.get_tensor(index)
        except NotAllocatedError:
            continue
        np.testing.assert_array_equal(array, kept.get_tensor(index), err_msg=f"case {case}, tensor {index}")
