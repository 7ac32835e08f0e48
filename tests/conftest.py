"""Settings of every test run."""
import pytest
from hypothesis import settings

from pylite.plugins import resolver

# A shared machine may stall any example: how long one takes says nothing about the code.
settings.register_profile("pylite", deadline=None)
settings.load_profile("pylite")


@pytest.fixture
def registered():
    """Whatever a test registers is forgotten after it."""
    before = {name: list(ops) for name, ops in resolver.registered._entries.items()}
    yield
    resolver.registered._entries.clear()
    resolver.registered._entries.update(before)
