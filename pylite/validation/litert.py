"""LiteRT's results for every tensor, if the package ai-edge-litert is installed."""
from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError, PyliteError
from pylite.media.tensors import feed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

# What follows "litert:" -> the resolver of its kernels.
KERNELS = {"ref": "BUILTIN_REF", "opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "default": "BUILTIN"}


def module() -> Any:
    """The module of LiteRT's Interpreter; ComparisonError if it is not installed."""
    try:
        from ai_edge_litert import interpreter  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise ComparisonError(f"LiteRT is not installed ({error}); pip install ai-edge-litert") from None
    return interpreter


@contextlib.contextmanager
def failures(what: str) -> Iterator[None]:
    """Turn an error of LiteRT into a ComparisonError that begins with `what`; pylite's own errors pass."""
    try:
        yield
    except PyliteError:
        raise
    except (ValueError, RuntimeError) as error:
        raise ComparisonError(f"{what}: {' '.join(str(error).split())}") from None


def version() -> str:
    """The version of LiteRT that is installed."""
    from importlib.metadata import version as of
    return of("ai-edge-litert")


def prepared(path: str, inputs: Sequence[NDArray[Any]], threads: int) -> Any:
    """LiteRT's Interpreter of a file, as users get it by default, with these inputs; ComparisonError if it refuses."""
    with failures("LiteRT refuses the model"):
        run = module().Interpreter(model_path=path, num_threads=threads)
        feed(run, inputs, allocate=True)
    return run


class LiteRT:
    """A model in LiteRT.  kernels: "ref", "opt" (optimized, no delegate) or "default" (with XNNPACK)."""

    def __init__(self, contents: bytes, kernels: str = "ref", threads: int = 1) -> None:
        interpreter = module()
        with failures(f"LiteRT ({kernels}) refuses the model"), warnings.catch_warnings():
            warnings.simplefilter("ignore")     # that tensors are preserved to look at them
            self._run = interpreter.Interpreter(
                model_content=contents, num_threads=threads, experimental_preserve_all_tensors=True,
                experimental_op_resolver_type=interpreter.OpResolverType[KERNELS[kernels]])

    def results(self, number: int, inputs: Sequence[NDArray[Any]]) -> dict[int, NDArray[Any]]:
        """{tensor: its contents} for one sample: the inputs as pylite's model got them."""
        run = self._run
        with failures(f"LiteRT fails on sample {number}"):
            feed(run, inputs, allocate=True)
            run.reset_all_variables()       # each sample starts without state, as in pylite
            run.invoke()
        by_tensor = {}
        for detail in run.get_tensor_details():
            with contextlib.suppress(ValueError):       # without memory, as a result that a delegate keeps to itself
                by_tensor[detail["index"]] = run.get_tensor(detail["index"])
        return by_tensor
