"""A reason is text to all but those who show places in a way of their own."""

from __future__ import annotations

import copy
import pickle

import pytest

from typedqax._origin import Place
from typedqax._reason import Reason

HERE, THERE = Place("/a folder (2)/here.py", 3), Place("there.py", 40)
DECLINED = Reason("negate (", HERE, ") declined")


def test_a_reason_is_its_text() -> None:
    assert DECLINED == "negate (/a folder (2)/here.py:3) declined"
    assert hash(DECLINED) == hash(str(DECLINED))


def test_places_are_shown_as_a_reader_wants_them_whatever_their_files_are_called() -> None:
    assert DECLINED.with_places(lambda place: f"line {place.line}") == "negate (line 3) declined"


def test_a_reason_in_another_keeps_its_places() -> None:
    whole = Reason("in it, ", DECLINED, " at ", THERE)
    assert whole.with_places(lambda place: str(place.line)) == "in it, negate (3) declined at 40"


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(copy.copy, id="copied"),
        pytest.param(copy.deepcopy, id="deeply"),
        pytest.param(lambda reason: pickle.loads(pickle.dumps(reason)), id="pickled"),
    ],
)
def test_a_copy_keeps_its_places(again: object) -> None:
    assert callable(again)
    assert again(DECLINED) == DECLINED
    assert again(DECLINED).parts == DECLINED.parts
