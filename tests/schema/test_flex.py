"""Custom options: FlexBuffers of any shape decode, damaged ones are refused."""
import contextlib

import pytest
from flatbuffers import flexbuffers
from hypothesis import given
from hypothesis import strategies as st

from pylite.errors import ModelError
from pylite.schema.flex import decode

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2**63, 2**63 - 1) | st.floats(-1e38, 1e38)
    | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text("abcdefgh_", min_size=1, max_size=6), inner, max_size=4), max_leaves=12)


@given(VALUES)
def test_values_round_trip(value):
    assert decode(flexbuffers.Dumps(value), "Mine") == value


def test_no_options():
    assert decode(b"", "Mine") == {}


@given(VALUES, st.data())
def test_damage_is_refused_or_harmless(value, data):
    damaged = bytearray(flexbuffers.Dumps(value))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ModelError):
        decode(bytes(damaged[:data.draw(st.integers(1, len(damaged)))]), "Mine")


def test_shared_values_are_bounded():
    # A vector of two references to a vector of two references ..., thirty levels deep.
    data = bytearray(b"\x02\x01\x01\x04\x04")
    vector = 1
    for _ in range(30):
        start = len(data)
        data += bytes([2, start + 1 - vector, start + 2 - vector, 0x28, 0x28])
        vector = start + 1
    data += bytes([len(data) - vector, 0x28, 1])
    with pytest.raises(ModelError, match="'Mine'"):
        decode(bytes(data), "Mine")
