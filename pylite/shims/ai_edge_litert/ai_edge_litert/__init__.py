"""Stands in for the package ai_edge_litert: pylite under its name; other modules are those of the package, if any."""
import pkgutil

from pylite import __version__ as __version__

__path__ = pkgutil.extend_path(__path__, __name__)
