"""The page of a run: what became dense, the flow of the program, and the handlers that ran."""

from __future__ import annotations

import html
import linecache
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from typedqax._errors import shortened
from typedqax._flow import Scope, Step
from typedqax._layout import human_bytes, short_place
from typedqax._lines import NOWHERE, Line, counted, times
from typedqax._page import (
    box,
    cell,
    chip,
    code,
    folding,
    fragment,
    heading,
    listed,
    row,
    section,
    step,
    table,
    tiles,
)
from typedqax._value import ImplicitValue

_ABOUT = "What the run does with implicit arrays."
_FLOW_NOTE = (
    "In order, by scopes; what repeats stands once. The body of a loop is one call, however often "
    "it runs."
)


def run_page(
    function: str, lines: Sequence[Line], program: Scope[int], totals: Sequence[str]
) -> str:
    """The page, for a notebook or to be put into a whole one.

    Args:
        function: the name of what was run; empty if that was no function.
        lines: what happened.
        program: the same as it went, by numbers of the lines.
        totals: what it comes to, in sentences, the first of which the page says in numbers.
    """
    title = f"explain({function})" if function else "explained"
    if not lines:
        return fragment(heading(title, totals[0]))
    dense = [line for line in lines if line.handler is None]
    calls = sum(line.count for line in dense)
    handled = sum(line.count for line in lines) - calls
    kind = "dense" if calls else "fine"
    facts = [
        (f"{handled:,}", f"call{'' if handled == 1 else 's'} ran a handler", "fine"),
        (f"{calls:,}", f"call{'' if calls == 1 else 's'} made an operand dense", kind),
        (human_bytes(sum(line.nbytes for line in dense)), "became dense", kind),
    ]
    advice = " ".join(f"{total}." for total in totals[1:])
    return fragment(
        heading(title, _ABOUT),
        tiles(facts),
        section("What became dense", _dense_table(dense), advice),
        section("The program", box(_flow(lines, program)), _FLOW_NOTE),
        section("Handlers that ran", _handler_table(lines)),
    )


def _dense_table(dense: Sequence[Line]) -> str:
    rows = [
        row(
            "dense",
            cell(str(line.count), counts="calls"),
            cell(_call(line) + listed(line.short_notes)),
            cell(html.escape(human_bytes(line.nbytes)), counts="in all"),
            cell(_where(line)),
        )
        for line in sorted(dense, key=lambda line: -line.nbytes)
    ]
    head = ("calls", "primitive and operands", "bytes", "where")
    return table(head, rows, numbers=(0, 2)) if rows else ""


def _handler_table(lines: Sequence[Line]) -> str:
    primitives: dict[tuple[str, str], Counter[str]] = {}
    for line in lines:
        if line.handler is not None:
            counts = primitives.setdefault((line.handler, line.place), Counter())
            counts[line.primitive] += line.count
    rows = [
        row(
            "",
            cell(str(sum(counts.values())), counts="calls"),
            cell(_handler(*handler)),
            cell(code(counted(counts))),
        )
        for handler, counts in primitives.items()
    ]
    return table(("calls", "handler", "for"), rows, numbers=(0,)) if rows else ""


def _flow(lines: Sequence[Line], scope: Scope[int]) -> str:
    shown: list[str] = []
    for part in scope.parts:
        if isinstance(part, Step):
            line = lines[part.what]
            kind = "fine" if line.handler else "dense"
            outcome = _outcome(line, part.count) + listed(line.short_notes)
            where = _where(line)
            shown.append(step(kind, part.count, _call(line), where, outcome))
            continue
        counts = list(replace(part, times=1).steps())
        dense = sum(count for what, count in counts if lines[what].handler is None)
        calls = times(sum(count for _, count in counts))
        each = " each" if part.times > 1 else ""
        summary = code(part.name or "a round")
        if part.times > 1:
            summary += chip(f"{part.times} times")
        ends = f"{chip(f'{dense} dense', 'dense')} of " if dense else ""
        ends += f"{calls}{each}"
        summary += f'<span class="end muted">{ends}</span>'
        shown.append(folding(summary, _flow(lines, part), is_open=True))
    return "".join(shown)


def _call(line: Line) -> str:
    operands = [
        f'<span class="implicit">{html.escape(str(operand))}</span>'
        if issubclass(operand.cls, ImplicitValue)
        else html.escape(str(operand))
        for operand in line.operands
    ]
    return f"<code><b>{html.escape(line.primitive)}</b>({', '.join(operands)})</code>"


def _outcome(line: Line, count: int) -> str:
    """What became of so many of the calls of a line."""
    if line.handler is None:
        together = " in all" if line.count > count else ""
        return f'<span class="outcome">became dense, {human_bytes(line.nbytes)}{together}</span>'
    return _handler(line.handler, line.place)


def _handler(handler: str, place: str) -> str:
    return f"{code(handler)} {code(short_place(place), kind='muted', title=place)}"


def _where(line: Line) -> str:
    """The user's line: where it is, and what stands there."""
    if line.where is None:
        return code(NOWHERE, kind="muted")
    file, _, number = line.where.rpartition(":")
    source = linecache.getline(file, int(number)).strip()
    shown = f" {code(shortened(source, 120), kind='source')}" if source else ""
    return code(short_place(line.where), kind="muted", title=line.where) + shown
