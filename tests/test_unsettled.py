"""What the error says of handlers of which neither is more specific."""

# What these handlers would compute plays no part here.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import itertools
import pickle
from typing import Annotated, Any

from beartype.vale import Is
from jax import Array
from jaxtyping import Float, Float32, Shaped

from tests.handler_kit import (
    ADD_ANY,
    DOT,
    MUL,
    NEG,
    SUB,
    Infinity,
    Lora,
    Zero,
    infinite,
    nothing,
    refused,
    rule,
)
from typedqax._errors import (
    AmbiguityError,
    DuplicateHandlerError,
)
from typedqax._table import HandlerTable
from typedqax._value import ImplicitValue


def test_an_ambiguity_is_told_with_places_an_example_and_the_handler_to_add() -> None:
    first = rule(Float[Lora, "n m"], Float[Array, "m"], of=DOT, name="matvec")
    second = rule(Float[Lora, "n m"], Float[Array, "n"], of=DOT, name="vecmat")
    text = str(refused(first, second))
    assert text == (
        "table 'tested' was not registered (nothing changed).\n"
        "For `dot_general`, two handlers of precedence 0 both match and neither is more specific:\n"
        f'  (1) matvec(x: Float[Lora, "n m"], y: Float[Array, "m"])    {first.handler.place}\n'
        f'  (2) vecmat(x: Float[Lora, "n m"], y: Float[Array, "n"])    {second.handler.place}\n'
        "For example this call would be ambiguous:\n"
        "      dot_general(Lora f32[2,2], Array f32[2])\n"
        "Fix it in one of these ways:\n"
        "  - add a handler for exactly what both match, in the same table:\n"
        '      def NAME(x: Float[Lora, "n n"], y: Float[Array, "n"], /, ...): ...'
        "      ops.dot_general.to(NAME)\n"
        "  - or say which wins: ops.dot_general.to(matvec, precedence=1), or vecmat"
    )


def test_the_mirror_of_a_handler_is_told_to_be_commutative() -> None:
    text = str(refused(rule(Zero, Any, name="left"), rule(Any, Zero, name="right")))
    assert (
        "keep one of them for both orders of the operands, and drop the other: "
        "ops.mul.to(left, commutative=True)" in text
    )


def test_the_mirror_is_no_way_out_where_the_order_matters() -> None:
    rules = [rule(Zero, Any, of=SUB, name="left"), rule(Any, Zero, of=SUB, name="right")]
    assert "commutative" not in str(refused(*rules))


def test_a_handler_for_both_orders_beside_one_for_one_order_is_told_of() -> None:
    error = refused(
        rule(Zero, Any, name="general"), rule(Zero, Lora, name="special", commutative=True)
    )
    assert (
        "`special` stands for both orders of its operands, `general` for one: give `general` "
        "commutative=True too, or take it from `special`" in str(error)
    )
    assert "def NAME" not in str(error)
    for both in (True, False):
        assert HandlerTable(
            "fine",
            rule(Zero, Any, name="general", commutative=both),
            rule(Zero, Lora, name="special", commutative=both),
        )


def test_a_handler_that_settles_a_part_is_told_of_and_the_example_is_from_the_rest() -> None:
    error = refused(infinite(), nothing(), rule(Infinity, Float32[Zero, "..."], name="floats"))
    text = str(error)
    assert "Part of what both match is settled by:" in text
    assert "floats(" in text
    assert "this call would still be ambiguous" in text
    assert "f32" not in error.pairs[0].witness


def test_an_overlap_that_no_signature_says_is_told_without_one() -> None:
    error = refused(
        rule(Float[Lora, "*b 3"], Float[Array, "*b"], of=DOT, name="right"),
        rule(Float[Lora, "3 *b"], Float[Array, "*b"], of=DOT, name="left"),
    )
    assert error.pairs[0].meet is None
    assert "def NAME" not in str(error)
    assert "Fix it:\n  - say which wins: ops.dot_general.to(right, precedence=1)" in str(error)


def test_validators_are_told_to_be_ordered_by_precedence() -> None:
    small = Is[lambda value: value.ndim < 3]
    even = Is[lambda value: value.size % 2 == 0]
    error = refused(
        rule(Annotated[Lora, small], Array, name="small"),
        rule(Annotated[Lora, even], Array, name="even"),
    )
    assert "these validators cannot be compared, only precedence= can order them" in str(error)


def test_all_errors_of_a_table_are_told_at_once_and_sorted() -> None:
    rules = [
        infinite(),
        nothing(),
        rule(Zero, Lora, of=DOT, name="once"),
        rule(Zero, Lora, of=DOT, name="twice"),
        rule(Float[Lora, "n m"], of=NEG, name="any_matrix"),
        rule(Shaped[Lora, "n n"], of=NEG, name="square"),
    ]
    texts = set()
    for order in itertools.islice(itertools.permutations(rules), 0, None, 37):
        error = refused(*order)
        texts.add(str(error))
        assert isinstance(error, AmbiguityError)
        assert isinstance(error, DuplicateHandlerError)
    assert len(texts) == 1
    text = texts.pop()
    assert text.index("`dot_general`") < text.index("`mul`") < text.index("`neg`")


def test_a_group_is_told_of_once() -> None:
    group = (MUL, ADD_ANY, SUB)
    error = refused(
        rule(Infinity, Any, of=group, name="left"), rule(Any, Zero, of=group, name="right")
    )
    assert len(error.pairs) == 1
    assert "For `add_any`, `mul` and `sub`, two handlers" in str(error)


def test_an_error_text_stays_short_whatever_is_wrong() -> None:
    classes = [type(f"Class{place}", (ImplicitValue,), {}) for place in range(12)]
    long = " ".join(f"a_rather_long_name_{place}" for place in range(50))
    rules = [rule(Shaped[cls, long], Any, of=DOT, name=f"left_{cls.__name__}") for cls in classes]
    rules += [rule(Any, Shaped[cls, long], of=DOT, name=f"right_{cls.__name__}") for cls in classes]
    error = refused(*rules)
    assert len(error.pairs) == len(classes) ** 2
    assert len(str(error)) < 4_000
    assert "more" in str(error)


def test_an_error_survives_pickling() -> None:
    error = refused(infinite(), nothing())
    again = pickle.loads(pickle.dumps(error))  # our own bytes
    assert str(again) == str(error)
    assert again.pairs == error.pairs
