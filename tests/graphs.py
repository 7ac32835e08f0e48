"""Graphs as they are lowered, and what they give."""
from pylite import lowering
from pylite.interpreter import Interpreter
from pylite.model import Model


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
