"""Shared by the training scripts: the command line, and running the exported model."""
import argparse
import sys
import time
from pathlib import Path

import export

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "pylite" / "media" / "models"


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def progress(step, loss):
    say(f"step {step}: loss {loss:.4f}")


def runner(model, peer=False):
    """A function from an input array to the list of the model's outputs, dequantized."""
    if peer:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
        interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    else:
        from pylite.interpreter import Interpreter
        interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    index = interpreter.get_input_details()[0]["index"]
    outputs = interpreter.get_output_details()

    def run(x):
        interpreter.set_tensor(index, x)
        interpreter.invoke()
        found = []
        for detail in outputs:
            y = interpreter.get_tensor(detail["index"])
            scale, zero_point = detail["quantization"]
            found.append((y.astype("float32") - zero_point) * scale if scale else y)
        return found
    return run


def main(task):
    """Run a training script.

    task: a module with NAME, network(), fit(network), calibration() -> batches, build(network, ranges) -> bytes,
    measure_float(network) and measure(run) -> text, and optionally samples(), which writes files for users.
    """
    parser = argparse.ArgumentParser(description=task.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="train again; otherwise use the stored weights")
    parser.add_argument("--peer", action="store_true", help="also measure with LiteRT's reference kernels")
    parser.add_argument("--out", type=Path, default=MODELS, help="folder of the .tflite file (default: the package)")
    parser.add_argument("--weights", type=Path, default=HERE / "weights", help="folder of the stored weights")
    args = parser.parse_args()
    network, weights = task.network(), args.weights / f"{task.NAME}.npz"
    if args.train:
        start = time.monotonic()
        task.fit(network)
        say(f"trained in {time.monotonic() - start:.0f} s")
        export.halve(network)
        export.save(weights, network, export.calibrate(network, task.calibration()))
    ranges = export.load(weights, network)
    model = task.build(network, ranges)
    path = args.out / f"{task.NAME}.tflite"
    path.write_bytes(model)
    say(f"{path}: {len(model)} bytes")
    if hasattr(task, "samples"):
        task.samples()
    say(f"float network: {task.measure_float(network)}")
    say(f"int8 model, pylite: {task.measure(runner(model))}")
    if args.peer:
        say(f"int8 model, LiteRT's reference kernels: {task.measure(runner(model, peer=True))}")
