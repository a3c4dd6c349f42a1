"""Why a signature does not accept some operands: the clause that texts show."""

from __future__ import annotations

from typing import Any

import pytest

from tests.resolver_world import CASES, operands, signature
from typedqax._mismatch import mismatch

REASONS = [
    pytest.param(
        [["Dense", "float32", [2, 5, 3]], ["LoraMatrix", "float32", [7, 4]]],
        "axis m is 7 (operand 2, axis 0), but 3 from operand 1, axis 2",
        id="shared axis",
    ),
    pytest.param(
        [["Dense", "float32", [2, 5, 3]], ["LoraMatrix", "int8", [3, 4]]],
        'operand 2: dtype int8, expected Float[LoraMatrix, "m n"]',
        id="dtype",
    ),
    pytest.param(
        [["Dense", "float32", [2, 5, 3]], ["Zeros", "float32", [3, 4]]],
        "operand 2: Zeros, expected LoraMatrix",
        id="class",
    ),
    pytest.param(
        [["Dense", "float32", [2, 5, 3]], ["LoraMatrix", "float32", [3, 4, 5]]],
        "operand 2: rank 3, expected 2",
        id="rank",
    ),
    pytest.param(
        [["Dense", "float32", []], ["LoraMatrix", "float32", [3, 4]]],
        "operand 1: rank 0, expected 1 or more",
        id="rank with a section",
    ),
    pytest.param(
        [["Dense", "float32", [2, 5, 3]]], "2 operands expected, got 1", id="number of operands"
    ),
]


@pytest.mark.parametrize(("point", "reason"), REASONS)
def test_mismatch_names_the_first_constraint_that_fails(point: list[Any], reason: str) -> None:
    found = signature(["Float[Array, '*b m']", "Float[LoraMatrix, 'm n']"])
    assert mismatch(found, operands(point)) == reason


def test_mismatch_is_about_the_alternative_that_comes_nearest() -> None:
    found = signature(["Float[Zeros, 'n'] | Float[Eye, 'n n']"])
    assert mismatch(found, operands([["Eye", "float32", [2, 3]]])) == (
        "axis n is 3 (operand 1, axis 1), but 2 from operand 1, axis 0"
    )


@pytest.mark.parametrize(
    ("annotations", "point", "reason"),
    [
        pytest.param(
            ["Float[Array, '3']"],
            [["Dense", "float32", [4]]],
            "operand 1, axis 0: size 4, expected 3",
            id="number",
        ),
        pytest.param(
            ["Float[Array, 'n']", "Float[Array, 'n+1']"],
            [["Dense", "float32", [4]], ["Dense", "float32", [4]]],
            "operand 2, axis 0: size 4 does not fit n+1, which is 5 (n = 4 from operand 1, axis 0)",
            id="expression",
        ),
        pytest.param(
            ["UInt8[Array, 'm n//2']", "Float[Array, '1 n']"],
            [["Dense", "uint8", [4, 6]], ["Dense", "float32", [1, 6]]],
            (
                "operand 1, axis 1: size 6 does not fit n//2, which is 3 "
                "(n = 6 from operand 2, axis 1)"
            ),
            id="packed",
        ),
        pytest.param(
            ["Float[Array, 'n']", "Float[Array, '#n']"],
            [["Dense", "float32", [4]], ["Dense", "float32", [3]]],
            "operand 2, axis 0: size 3 does not fit #n, which is 4 (n = 4 from operand 1, axis 0)",
            id="broadcast axis",
        ),
        pytest.param(
            ["Float[Array, '*b']", "Float[Array, '*b']"],
            [["Dense", "float32", [4]], ["Dense", "float32", [4, 2]]],
            "axes *b are (4, 2) (operand 2), but (4,) from operand 1",
            id="section",
        ),
        pytest.param(
            ["Float[Array, '#*b']", "Float[Array, '*b']"],
            [["Dense", "float32", [4]], ["Dense", "float32", [2]]],
            "the shapes do not fit together: (4,) for #*b, (2,) for *b",
            id="broadcast",
        ),
    ],
)
def test_mismatch_of_shapes_is_told_in_sizes(
    annotations: list[str], point: list[Any], reason: str
) -> None:
    assert mismatch(signature(annotations), operands(point)) == reason


@pytest.mark.parametrize("case", CASES["pairs"], ids=lambda case: case["id"])
def test_mismatch_never_fails(case: dict[str, Any]) -> None:
    for point in (case["a_not_b"], case["b_not_a"], case["witness"]):
        for side in ("a", "b"):
            text = mismatch(signature(**case[side]), operands(point or []))
            assert text
            assert len(text) < 400
