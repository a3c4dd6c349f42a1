"""Why handlers did not take a call: the nearest ones, and those that are not installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typedqax._dispatch import ANY_PRIMITIVE, Tables
from typedqax._mismatch import mismatch
from typedqax._reason import Reason
from typedqax._signature import Operand
from typedqax._table import Entry, HandlerTable, live_tables


@dataclass(frozen=True, slots=True)
class Miss:
    """A handler that did not take a call, and why.

    Attributes:
        entry: the handler.
        reason: the first constraint that failed, or that its table is not installed.
        table: where it was found, when that is not among the tables that were looked in.
    """

    entry: Entry
    reason: str
    table: HandlerTable | None = None


def misses(tables: Tables, primitive: str, operands: Sequence[Operand]) -> list[Miss]:
    """Why handlers of `primitive` did not take a call: the nearest first.

    First of all come handlers that would have taken it, but are in a table that is declared and
    not installed.
    """
    rankings = tables.rankings(primitive)
    looked_in = {entry.rule for ranking in rankings for entry in ranking.entries}
    elsewhere = [
        Miss(
            entry,
            Reason(
                f"it is in the table {table.name!r} (",
                table.origin.place,
                "), which is not installed and was not given as handlers=",
            ),
            table,
        )
        for table in live_tables()
        for entry in table.entries(primitive)
        if entry.rule not in looked_in and entry.signature.match(operands) is not None
    ]
    near: list[tuple[int, int, Miss]] = []
    for ranking in rankings:
        if ranking.primitive == ANY_PRIMITIVE:
            continue
        for entry in ranking.entries:
            if entry.signature.match(operands) is None:
                distance = _distance(entry, operands)
                near.append((distance, len(near), Miss(entry, mismatch(entry.signature, operands))))
    return [*_each_rule_once(elsewhere), *(miss for _, _, miss in sorted(near, key=_nearness))]


def _nearness(item: tuple[int, int, Miss]) -> tuple[int, int]:
    return item[:2]


def _each_rule_once(found: Sequence[Miss]) -> list[Miss]:
    """Of tables that contain one another, the first that has the rule."""
    return list({miss.entry.rule: miss for miss in reversed(found)}.values())[::-1]


def _distance(entry: Entry, operands: Sequence[Operand]) -> int:
    """How many operands are of a class that the handler does not take; more for the arity."""
    signature = entry.signature
    if not signature.accepts_arity(len(operands)):
        return 100
    return sum(
        signature.classes_at(place).isdisjoint(operand.cls.__mro__)
        for place, operand in enumerate(operands)
    )
