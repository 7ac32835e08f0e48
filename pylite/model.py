"""A loaded model, to share between interpreters."""
from pylite.runtime.model import Model

__all__ = ["Model"]
