"""Stands in for the package ai_edge_litert: pylite under its name."""
from pylite import __version__ as __version__
