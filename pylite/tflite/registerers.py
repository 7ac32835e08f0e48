"""The argument custom_op_registerers of InterpreterWithCustomOps."""
from typing import TYPE_CHECKING

from pylite.plugins.host.custom_ops import RegistererResolver, global_function
from pylite.plugins.resolver import BuiltinOpResolver, MutableOpResolver
from pylite.tflite import arguments

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pylite.plugins.resolver import OpResolver

_IN_A_LIBRARY = "pylite.load_custom_ops(LIBRARY, [NAME, ...], 'registerer') loads the ops of a library"


def filled_by(registerers: "Iterable[Any]", op_resolver: "OpResolver | None") -> "MutableOpResolver":
    """A copy of `op_resolver` (by default a BuiltinOpResolver) to which the functions `registerers` added their ops."""
    filled = RegistererResolver()
    filled.add_all(BuiltinOpResolver() if op_resolver is None else arguments.resolver(op_resolver))
    for registerer in registerers:
        if isinstance(registerer, str):
            try:
                registerer = global_function(registerer)
            except AttributeError as error:
                raise ValueError(f"custom_op_registerers: no library that is loaded with RTLD_GLOBAL has a function "
                                 f"{registerer!r} ({error}). {_IN_A_LIBRARY}") from None
        if not callable(registerer):
            raise ValueError(f"custom_op_registerers holds {registerer!r}, which is not a function. {_IN_A_LIBRARY}")
        filled.call(registerer)
    plain = MutableOpResolver()
    plain.add_all(filled)
    return plain
