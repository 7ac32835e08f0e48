"""Other runtimes beside LiteRT, for comparison only: OpenVINO, and ONNX Runtime where tflite2onnx converts the model.

    pip install openvino onnxruntime tflite2onnx

OpenVINO reads `.tflite` files itself.  tf2onnx needs TensorFlow, which tflite2onnx does not.
"""
import contextlib
import importlib.util
import io
import logging
import tempfile
from pathlib import Path

import numpy as np

PACKAGES = {"OpenVINO": ("openvino",), "ONNX Runtime": ("onnxruntime", "tflite2onnx")}


def missing(name):
    """The packages that a runtime lacks here."""
    return [package for package in PACKAGES[name] if importlib.util.find_spec(package) is None]


def drawn(shape, dtype):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape) if np.dtype(dtype).kind == "f" else rng.integers(0, 100, shape)
    return x.astype(dtype)


def openvino(path, threads):
    """A function that runs the model by OpenVINO in float32, for the least latency."""
    import openvino as ov
    core = ov.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads})
    request = compiled.create_infer_request()
    for i, x in enumerate(compiled.inputs):
        shape = [d.get_length() if d.is_static else 1 for d in x.get_partial_shape()]
        request.set_input_tensor(i, ov.Tensor(drawn(shape, x.get_element_type().to_dtype())))
    request.infer()
    return request.infer


def onnxruntime(path, threads):
    """A function that runs the model by ONNX Runtime."""
    import onnxruntime as ort
    import tflite2onnx
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        converted = str(Path(folder) / "model.onnx")
        tflite2onnx.convert(str(path), converted)
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
        session = ort.InferenceSession(converted, options, ["CPUExecutionProvider"])
    logging.disable(logging.NOTSET)
    types = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8,
             "tensor(int32)": np.int32, "tensor(int64)": np.int64}
    feed = {x.name: drawn(x.shape, types[x.type]) for x in session.get_inputs()}
    session.run(None, feed)
    return lambda: session.run(None, feed)


RUNTIMES = {"OpenVINO": openvino, "ONNX Runtime": onnxruntime}


def runner(name, path, threads):
    """A function that runs the model once, or None if the runtime is absent or cannot run it."""
    if missing(name):
        return None
    try:
        return RUNTIMES[name](path, threads)
    except Exception:       # of any kind, if a runtime or a converter cannot take the model
        return None
