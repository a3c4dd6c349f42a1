"""The meet of two signatures: what both accept, in annotations that a user could write."""

from __future__ import annotations

import pytest

from tests.resolver_world import operands, signature
from typedqax._meet import meet
from typedqax._relations import is_subset, uncovered_overlap


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        pytest.param(
            ["Float[Array, 'n m']", "Float[Array, 'm']"],
            ["Float[Array, 'n m']", "Float[Array, 'n']"],
            'x0: Float[Array, "n n"], x1: Float[Array, "n"]',
            id="square",
        ),
        pytest.param(
            ["Zeros", "ImplicitArray"], ["ImplicitArray", "Eye"], "x0: Zeros, x1: Eye", id="classes"
        ),
        pytest.param(
            ["Float[Array, '*b 3']", "Float[Array, '*b']"],
            ["Float[Array, '3 *b']", "Float[Array, '*b']"],
            None,
            id="no one annotation says it",
        ),
        pytest.param(
            ["Float[Array, '*b m']", "Float[LoraMatrix, 'm n']"],
            ["Float[Array, 'k m']", "Any"],
            'x0: Float[Array, "k m"], x1: Float[LoraMatrix, "m n"]',
            id="the user's names",
        ),
        pytest.param(
            ["Real[Array, '...']"],
            ["Inexact[Array, '...']"],
            'x0: Float[Array, "..."]',
            id="dtypes",
        ),
        pytest.param(["LoraMatrix"], ["QuantMatrix"], "x0: LoraQuant", id="common subclass"),
        pytest.param(["Zeros"], ["Eye"], None, id="disjoint"),
    ],
)
def test_meet_is_what_both_accept(a: list[str], b: list[str], expected: str | None) -> None:
    found = meet(signature(a), signature(b))
    assert (None if found is None else found.render()) == expected
    if found is not None:
        assert is_subset(found, signature(a))
        assert is_subset(found, signature(b))
        assert uncovered_overlap(signature(a), signature(b), [found]) is None


def test_meet_of_commutative_signatures_is_commutative() -> None:
    a = signature(["Zeros", "ImplicitArray"], commutative=True)
    b = signature(["Eye", "ImplicitArray"], commutative=True)
    found = meet(a, b)
    assert found is not None
    assert found.match(operands([["Zeros", "float32", []], ["Eye", "float32", []]]))
    assert found.match(operands([["Eye", "float32", []], ["Zeros", "float32", []]]))
