"""Every real model beside the checkout whose operators are registered gives the reference kernels' results."""
import pytest

from tests import models
from tests.resources import lack, peer

NAMES = models.names() if models.MODELS.is_dir() else []


def test_there_are_models():
    if not NAMES:
        lack("../shared/models is not beside the checkout")


@pytest.mark.parametrize("name", NAMES)
def test_model(name):
    peer()
    result = models.compare(name)
    if result.status == "unsupported":
        pytest.skip(result.detail)
    if result.status == "refused":
        pytest.skip(f"the peer refuses: {result.detail}")
    assert result.status in ("equal", "close"), result.detail
