"""Findings about a table that are no reason to refuse it."""

# What these handlers would compute plays no part here.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Any

from jax import Array
from jaxtyping import Shaped

from tests.handler_kit import (
    ANY,
    EXP,
    MAYBE,
    NEG,
    SUB,
    SmallZero,
    Zero,
    rule,
)
from typedqax._findings import findings
from typedqax._rule import Rule
from typedqax._table import HandlerTable


def codes(*rules: Rule) -> dict[str, str]:
    return {each.code: each.text for each in findings(HandlerTable("tested", *rules))}


def test_a_handler_behind_a_general_one_of_higher_precedence_is_found() -> None:
    general = rule(Zero, of=NEG, name="general", returns=Array, precedence=1)
    special = rule(SmallZero, of=NEG, name="special", returns=Array)
    text = codes(general, special)["unreachable"]
    assert "`special` never runs for `neg`" in text
    assert "`general`" in text


def test_a_handler_behind_one_that_may_decline_is_not() -> None:
    general = rule(Zero, of=NEG, name="general", returns=MAYBE, precedence=1)
    assert codes(general, rule(SmallZero, of=NEG, name="special", returns=Array)) == {}


def test_a_handler_that_several_cover_is_found() -> None:
    rules = [
        rule(Shaped[Zero, "_ ..."], of=NEG, name="arrays", returns=Array),
        rule(Shaped[Zero, ""], of=NEG, name="scalars", returns=Array),
        rule(Zero, of=NEG, name="covered", returns=Array),
    ]
    assert "`covered` never runs" in codes(*rules)["unreachable"]


def test_a_rule_without_its_counterpart_is_found() -> None:
    rules = [
        rule(Zero, Zero, of=SUB, name="general", returns=Array),
        rule(Zero, SmallZero, of=SUB, name="special", returns=Array),
    ]
    text = codes(*rules)["one-sided"]
    assert "`special` has no counterpart for the other order: sub(SmallZero" in text
    assert "falls to `general`" in text
    both = rule(SmallZero, SmallZero, of=SUB, name="both", returns=Array)
    counterpart = rule(SmallZero, Zero, of=SUB, name="counterpart", returns=Array)
    assert codes(*rules, counterpart, both) == {}


def test_a_param_that_no_primitive_has_is_found() -> None:
    def handle(x: Zero, *, acuracy: object = None, **params: Any) -> Array: ...

    assert (
        "names the param `acuracy`, which `exp` never gives"
        in codes(Rule.declare(handle, (EXP,)))["unknown-param"]
    )


def test_a_finding_is_printed_as_type_checkers_print() -> None:
    def handle(x: Zero, *, acuracy: object = None, **params: Any) -> Array: ...

    found = findings(HandlerTable("tested", Rule.declare(handle, (EXP,))))
    assert str(found[0]).startswith(f"{__file__}:{handle.__code__.co_firstlineno}: error: `handle`")
    assert str(found[0]).endswith("[unknown-param]")


def test_what_runs_for_any_primitive_is_ranked_like_the_rest() -> None:
    table = HandlerTable(
        "any",
        rule(rest=Any, of=ANY, name="wide"),
        rule(rest=Zero, of=ANY, name="narrow"),
    )
    assert [entry.handler.name for entry in table.entries("*")] == ["narrow", "wide"]
