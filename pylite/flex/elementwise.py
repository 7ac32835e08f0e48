"""Element-wise Flex ops, with numpy's broadcasting."""
from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np

from pylite.flex.op import flex_op

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    _Array = NDArray[Any]

_FLOATS = ("float32", "float64", "float16")
_PARTS = {"complex64": "float32", "complex128": "float64"}
_SELU_SCALE, _SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
_STEPS = 256        # intervals of Erf's table between two integers
_ERF_END = 6        # for larger arguments, Erf is 1 in float64


def _each(function: Callable[[float], float]) -> Callable[[_Array], _Array]:
    """A function of `math`, applied to each element of a float64 array."""
    return np.vectorize(function, otypes=[np.float64])


@cache
def _erf_table() -> _Array:
    """(4, intervals): the cubic on each interval that has the values and slopes of erf at both ends; off by 1e-11."""
    x = np.arange(_ERF_END * _STEPS + 1) / _STEPS
    y, slope = _each(math.erf)(x), 2 / math.sqrt(math.pi) * np.exp(-x * x) / _STEPS
    rise, left, right = np.diff(y), slope[:-1], slope[1:]
    return np.array([y[:-1], left, 3 * rise - 2 * left - right, left + right - 2 * rise])


def erf(x: _Array) -> _Array:
    place = np.minimum(np.abs(x), _ERF_END) * _STEPS
    known = np.where(np.isnan(place), 0, place)
    interval = np.minimum(known.astype(np.intp), _ERF_END * _STEPS - 1)
    y, first, second, third = _erf_table()[:, interval]
    t = place - interval
    return np.copysign(y + t * (first + t * (second + t * third)), x)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except ValueError:      # a pole
        return math.inf


def _selu(x: _Array) -> _Array:
    return _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, 0)))


def _product(function: Callable[..., _Array], x: _Array, y: _Array) -> _Array:
    """x * function(y), and 0 where x is 0."""
    return np.where(x == 0, 0, x * function(y))


def _wide(function: Callable[..., _Array], *arrays: _Array) -> _Array:
    """The result of the function computed in float64 or complex128."""
    return function(*[np.asarray(x, np.complex128 if np.iscomplexobj(x) else np.float64) for x in arrays])


_UNARY: dict[str, Callable[..., Any]] = {
    "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Asinh": np.arcsinh, "Atan": np.arctan,
    "Atanh": np.arctanh, "Cosh": np.cosh, "Erf": erf, "Erfc": _each(math.erfc), "Expm1": np.expm1,
    "Inv": np.reciprocal, "Lgamma": _each(_lgamma), "Log1p": np.log1p, "Reciprocal": np.reciprocal, "Rint": np.rint,
    "Selu": _selu, "Sinh": np.sinh, "Softplus": partial(np.logaddexp, 0), "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tan": np.tan}
_BINARY: dict[str, Callable[..., Any]] = {
    "Atan2": np.arctan2, "Xdivy": lambda x, y: np.where(x == 0, 0, x / y), "Xlog1py": partial(_product, np.log1p),
    "Xlogy": partial(_product, np.log)}
_ALSO_COMPLEX = {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Expm1", "Inv", "Log1p", "Reciprocal",
                 "Sinh", "Tan", "Xdivy", "Xlog1py", "Xlogy"}
_TESTS: dict[str, Callable[..., Any]] = {"IsFinite": np.isfinite, "IsInf": np.isinf, "IsNan": np.isnan}
_OF_COMPLEX: dict[str, Callable[..., Any]] = {"Angle": np.angle, "ComplexAbs": np.abs, "Imag": np.imag,
                                              "Real": np.real}



def _types(name: str) -> tuple[str, ...]:
    return (*_FLOATS, *_PARTS) if name in _ALSO_COMPLEX else _FLOATS


for _name, _function in _UNARY.items():
    flex_op(_name, *[f"{t} -> {t}" for t in _types(_name)])(partial(_wide, _function))
for _name, _function in _BINARY.items():
    flex_op(_name, *[f"{t} {t} -> {t}" for t in _types(_name)])(partial(_wide, _function))
for _name, _function in _TESTS.items():
    flex_op(_name, *[f"{t} -> bool" for t in _FLOATS])(_function)
for _name, _function in _OF_COMPLEX.items():
    flex_op(_name, *[f"{number} -> {part}" for number, part in _PARTS.items()])(_function)
flex_op("Conj", *[f"{number} -> {number}" for number in _PARTS])(np.conj)
flex_op("Complex", *[f"{part} {part} -> {number}" for number, part in _PARTS.items()])(lambda x, y: x + 1j * y)
