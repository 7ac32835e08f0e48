"""Op resolvers: which ops an interpreter has."""
from pylite.plugins.resolver import BuiltinOpResolver, MutableOpResolver, OpResolver

__all__ = ["BuiltinOpResolver", "MutableOpResolver", "OpResolver"]
