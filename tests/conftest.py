"""Settings of every test run."""
import os

import pytest
from hypothesis import settings

from pylite._core import simd
from pylite.plugins import resolver

os.environ.setdefault("PYLITE_CACHE_DIR", "")      # tests leave the user's cache folder alone

# No deadline: the duration of an example depends on the load of the machine.  The same examples in each run, so that a
# change is what makes a test fail; --hypothesis-profile explore looks for new ones.
settings.register_profile("pylite", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile("pylite")


def pytest_collection_modifyitems(items):
    """Begin with the slow tests, so that no process of several is left with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def registered():
    """Restores the registered custom ops after the test."""
    before = {name: list(ops) for name, ops in resolver.registered._entries.items()}
    yield
    resolver.registered._entries.clear()
    resolver.registered._entries.update(before)


@pytest.fixture(params=simd.available())
def isa_level(request):
    """Runs the test on every ISA level of this CPU."""
    chosen = simd.current
    simd.use(request.param)
    yield request.param
    simd.use(chosen)
