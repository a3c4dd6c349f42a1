"""Explanations: what a whole run does with implicit arrays, as text, page and data."""

from __future__ import annotations

import functools
import html
import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias

from typedqax import _jax
from typedqax._dry_run import dry_run
from typedqax._errors import MaterializationError, UsageError, shown_argument
from typedqax._flow import Scope, Step, flow
from typedqax._layout import clipped, human_bytes, short_place, table, terminal_width
from typedqax._materialization import ASKERS, HasName, Materialization, primitives_named
from typedqax._page import (
    box,
    cell,
    chip,
    code,
    folding,
    fragment,
    heading,
    listed,
    page,
    row,
    section,
    step,
    tiles,
)
from typedqax._page import table as html_table
from typedqax._recording import Application, Record, recording, scopes_of
from typedqax._signature import Operand
from typedqax._value import ImplicitValue

P = ParamSpec("P")

NOWHERE = "no line of yours"
"""What is shown for a call that no line of the user's code makes, such as those in `jnp.sin` when
that itself is what was transformed and jitted."""


@dataclass(frozen=True, slots=True)
class Line:
    """What happened for one primitive on one line of the user's code.

    Attributes:
        primitive: the primitive's name.
        operands: its operands.
        count: how many calls.
        handler: the handler that ran; None: an operand became dense.
        nbytes: the bytes that became dense in all calls.
        reasons: why they did, or which handlers declined before the one that ran.
        where: the user's file and line; None: the call is in no line of the user's.
        dense: the classes that became dense.
        arguments: the arguments that those arrays are, or were computed from, as far as known.
        remedy: what to do where no handler of the primitive could do better.
        backward: where the call is in the backward pass of a derivative: of what.
        place: the file and line of the handler that ran; empty where none did.
    """

    primitive: str
    operands: tuple[Operand, ...]
    count: int
    handler: str | None
    nbytes: int
    reasons: tuple[str, ...]
    where: str | None
    dense: tuple[type[ImplicitValue], ...] = ()
    arguments: tuple[str, ...] = ()
    remedy: str = ""
    backward: str = ""
    place: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say below it."""
        notes = [*self.reasons]
        if self.backward:
            notes.append(self.backward)
        if self.arguments:
            first, *others = self.arguments
            more = f" and {len(others)} more" if others else ""
            notes.append(f"from the argument {first}{more}")
        if self.remedy:
            notes.append(f"no handler could help: {self.remedy}")
        return tuple(notes)

    @property
    def lacks_handler(self) -> bool:
        """Whether it became dense where a handler would have been asked."""
        dense = self.handler is None
        return dense and not self.remedy and self.primitive not in ASKERS

    @property
    def call(self) -> str:
        """The call, with its operands."""
        return f"{self.primitive}({', '.join(map(str, self.operands))})"

    def __str__(self) -> str:
        dense = f"became dense ({human_bytes(self.nbytes)})"
        outcome = dense if self.handler is None else f"{self.handler} ({self.place})"
        return f"{self.count} x {self.call}: {outcome}, at {self.where or NOWHERE}"


_RUN_HEAD = ("calls", "primitive and operands", "what ran", "where")
_PLACE = re.compile(r"[^\s()'\"]+\.py:\d+")


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What a run does with implicit arrays.

    A call in the body of a loop, and in each branch of a `cond`, is one call: that is how often it
    stands in the program, however often it runs.

    Attributes:
        function: the name of what was run; empty if that was no function.
        lines: what happened, per primitive with the same operands, outcome and line of the user's
            code, in the order of first calls.
        flow: the same as it went: numbers of `lines`, in the scopes of the program.
    """

    function: str
    lines: tuple[Line, ...]
    flow: Scope[int]

    @classmethod
    def of(cls, record: Record, function: str = "") -> Explanation:
        """What the record of a run says."""
        groups: dict[_Key, list[Application | Materialization]] = {}
        order: dict[_Key, int] = {}
        steps: list[tuple[tuple[str, ...], int]] = []
        operands_left = 0
        for event in record.events:
            key = _key(event)
            groups.setdefault(key, []).append(event)
            number = order.setdefault(key, len(order))
            # A call has one event for each of its operands that became dense.
            if operands_left and steps[-1][1] == number:
                operands_left -= 1
                continue
            steps.append((scopes_of(event), number))
            operands_left = _implicit_operands(event) - 1
        lines = [_line(key, events) for key, events in groups.items()]
        counts = Counter(number for _, number in steps)
        counted = [replace(line, count=counts[number]) for number, line in enumerate(lines)]
        return cls(function, tuple(counted), flow(steps))

    @property
    def materialized(self) -> tuple[Line, ...]:
        """The lines on which something became dense."""
        return tuple([line for line in self.lines if line.handler is None])

    @property
    def handled(self) -> int:
        """How many calls ran a handler."""
        return sum(line.count for line in self.lines if line.handler is not None)

    @property
    def nbytes(self) -> int:
        """How many bytes became dense."""
        return sum(line.nbytes for line in self.materialized)

    @property
    def missing(self) -> dict[str, dict[str, int]]:
        """By class, the primitives that it became dense for and how often: handlers to write."""
        return self._dense_for(lambda line: line.lacks_handler)

    def _dense_for(self, wanted: Callable[[Line], bool]) -> dict[str, dict[str, int]]:
        found: dict[str, Counter[str]] = {}
        for line in self.materialized:
            for cls in line.dense if wanted(line) else ():
                found.setdefault(cls.__name__, Counter())[line.primitive] += line.count
        return {name: dict(counts.most_common()) for name, counts in found.items()}

    @property
    def totals(self) -> tuple[str, ...]:
        """What it comes to, in sentences."""
        dense = sum(line.count for line in self.materialized)
        if not self.lines:
            return ("No primitive met an implicit array.",)
        if not dense:
            return (f"{_times(self.handled)} ran a handler; nothing became dense.",)
        made = f"{_times(dense)} made an operand dense ({human_bytes(self.nbytes)})"
        return (
            f"{_times(self.handled)} ran a handler; {made}.",
            *[
                f"{name}: {len(counts)} primitive{'s lack' if len(counts) > 1 else ' lacks'} a "
                f"handler: {_counted(counts)}"
                for name, counts in self.missing.items()
            ],
            *[
                f"{name}: became dense, whatever handlers there are, for {_counted(counts)}"
                for name, counts in self._dense_for(lambda line: not line.lacks_handler).items()
            ],
        )

    def __str__(self) -> str:
        return self.to_text(terminal_width())

    def __repr__(self) -> str:
        return str(self)

    def to_text(self, width: int) -> str:
        """A table at most `width` characters wide, and the totals."""
        if not self.lines:
            return self.totals[0]
        rows = [
            (
                (
                    str(line.count),
                    line.call,
                    _outcome(line, width // 6),
                    NOWHERE if line.where is None else short_place(line.where, width // 4),
                ),
                _shortened(line.notes),
            )
            for line in self.lines
        ]
        totals = [clipped(total, width) for total in self.totals]
        return "\n".join([table(_RUN_HEAD, rows, (6, 44, 26, 24), width), "", *totals])

    def __rich__(self) -> Any:
        """The table for rich, whose `print` asks for it, in colours and as wide as it may be."""
        if not self.lines:
            return self.totals[0]
        from rich.console import Group  # noqa: PLC0415  # only rich asks, so it is there
        from rich.table import Table  # noqa: PLC0415  # the same
        from rich.text import Text  # noqa: PLC0415  # the same

        shown = Table(box=None, pad_edge=False, header_style="bold")
        shown.add_column(_RUN_HEAD[0], justify="right")
        for title in _RUN_HEAD[1:]:
            shown.add_column(title, overflow="fold")
        for line in self.lines:
            call = Text(line.call)
            for note in _shortened(line.notes):
                call.append(f"\n· {note}", style="dim")
            where = NOWHERE if line.where is None else short_place(line.where)
            style = "green" if line.handler else "bold yellow"
            shown.add_row(str(line.count), call, Text(_outcome(line, 40), style), Text(where))
        good = "yellow" if self.materialized else "green"
        return Group(shown, "", *[Text(total, good) for total in self.totals])

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for tools."""
        return {
            "function": self.function,
            "lines": [
                {
                    "primitive": line.primitive,
                    "operands": [str(operand) for operand in line.operands],
                    "count": line.count,
                    "handler": line.handler,
                    "place": line.place or None,
                    "bytes": line.nbytes,
                    "dense": [cls.__name__ for cls in line.dense],
                    "reasons": list(line.reasons),
                    "arguments": list(line.arguments),
                    "remedy": line.remedy,
                    "backward": line.backward,
                    "where": line.where,
                }
                for line in self.lines
            ],
            "flow": _flow_dict(self.flow),
            "handled": self.handled,
            "materialized": sum(line.count for line in self.materialized),
            "bytes": self.nbytes,
            "missing": self.missing,
        }

    def _repr_html_(self) -> str:
        """The run for notebooks: what it comes to, its flow, what became dense, what ran."""
        title = f"explain({self.function})" if self.function else "explained"
        if not self.lines:
            return fragment(heading(title, self.totals[0]))
        calls = sum(line.count for line in self.materialized)
        kind = "dense" if calls else "fine"
        facts = [
            (f"{self.handled:,}", _ran_a_handler(self.handled), "fine"),
            (f"{calls:,}", f"call{'' if calls == 1 else 's'} made an operand dense", kind),
            (human_bytes(self.nbytes), "became dense", kind),
        ]
        return fragment(
            heading(title, _ABOUT),
            tiles(facts),
            section("What became dense", self._dense_table(), self._advice),
            section("The program", box(_flow_html(self.lines, self.flow)), _FLOW_NOTE),
            section("Handlers that ran", self._handler_table()),
        )

    @property
    def _advice(self) -> str:
        """What would help, for a page."""
        return " ".join(f"{total}." for total in self.totals[1:])

    def _dense_table(self) -> str:
        rows = [
            row(
                "dense",
                cell(str(line.count), counts="calls"),
                cell(_call_html(line) + listed(_shortened(line.notes))),
                cell(html.escape(human_bytes(line.nbytes)), counts="in all"),
                cell(_where_html(line)),
            )
            for line in sorted(self.materialized, key=lambda line: -line.nbytes)
        ]
        head = ("calls", "primitive and operands", "bytes", "where")
        return html_table(head, rows, numbers=(0, 2)) if rows else ""

    def _handler_table(self) -> str:
        primitives: dict[tuple[str, str], Counter[str]] = {}
        for line in self.lines:
            if line.handler is not None:
                counts = primitives.setdefault((line.handler, line.place), Counter())
                counts[line.primitive] += line.count
        rows = [
            row(
                "",
                cell(str(sum(counts.values())), counts="calls"),
                cell(_handler_html(*handler)),
                cell(code(_counted(counts))),
            )
            for handler, counts in primitives.items()
        ]
        return html_table(("calls", "handler", "for"), rows, numbers=(0,)) if rows else ""

    def to_html(self, path: str | Path) -> None:
        """Write the run as one page, which loads nothing from elsewhere."""
        title = f"typedqax: explain({self.function})" if self.function else "typedqax: explained"
        Path(path).write_text(page(title, self._repr_html_()), encoding="utf-8")

    @_jax.api_boundary
    def assert_no_materialization(
        self, *classes: type, allow: Iterable[str | HasName] = ()
    ) -> None:
        """For tests: nothing became dense, but for the primitives in `allow`.

        Args:
            classes: only these classes, and their subclasses, are asked about; all, if none.
            allow: primitives: their names, ops, or primitives themselves.

        Raises:
            MaterializationError: something did; the text has each line.
            UsageError: `classes` are none, or JAX has no such primitive.
        """
        for cls in classes:
            given: object = cls
            if not isinstance(given, type):
                raise UsageError(
                    f"assert_no_materialization({shown_argument(given)}): give classes; primitives "
                    f"that may be met go into allow=."
                )
        allowed = primitives_named(allow)
        dense = [
            line
            for line in self.materialized
            if line.primitive not in allowed
            and (not classes or any(issubclass(cls, classes) for cls in line.dense))
        ]
        if dense:
            shown = [f"  {clipped(str(line), 300)}" for line in dense[:10]]
            more = [f"  ... and {len(dense) - 10} more"] if len(dense) > 10 else []
            raise MaterializationError("\n".join(["implicit arrays became dense:", *shown, *more]))


def _times(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _ran_a_handler(count: int) -> str:
    return f"call{'' if count == 1 else 's'} ran a handler"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{each} x{count}" for each, count in counts.items())


def _outcome(line: Line, width: int) -> str:
    """What ran, with its place in at most `width` characters."""
    if line.handler is None:
        return f"DENSE, {human_bytes(line.nbytes)}"
    return f"{line.handler} ({short_place(line.place, width)})"


def _shortened(notes: Iterable[str]) -> list[str]:
    return [_PLACE.sub(lambda found: short_place(found[0]), each) for each in notes]


# --- lines ---------------------------------------------------------------------------------------

_Key: TypeAlias = tuple[
    str, tuple[Operand, ...], tuple[str, str] | None, tuple[str, ...], str | None, str
]


def _key(event: Application | Materialization) -> _Key:
    """What makes two events the same line."""
    frame = _jax.user_frame(event.source)
    where = None if frame is None else f"{frame.file}:{frame.line}"
    backward = ""
    if _jax.in_transpose(event.source):
        transposed = event.transposed if isinstance(event, Materialization) else None
        backward = f"in the transpose of {transposed}" if transposed else "in the backward pass"
    if isinstance(event, Application):
        ran = event.handler, str(event.place)
        return event.primitive, event.operands, ran, event.declined, where, backward
    return event.primitive, event.operands, None, event.reasons, where, backward


def _line(key: _Key, events: Sequence[Application | Materialization]) -> Line:
    primitive, operands, ran, reasons, where, backward = key
    dense = [event for event in events if isinstance(event, Materialization)]
    arguments = [event.argument for event in dense if event.argument and event.argument.name]
    return Line(
        primitive,
        operands,
        len(events),
        None if ran is None else ran[0],
        sum(event.nbytes or 0 for event in dense),
        reasons,
        where,
        tuple(dict.fromkeys(event.cls for event in dense)),
        tuple(dict.fromkeys(map(str, arguments))),
        next((event.remedy for event in dense if event.remedy), ""),
        backward,
        "" if ran is None else ran[1],
    )


def _implicit_operands(event: Application | Materialization) -> int:
    """How many events its call has."""
    if isinstance(event, Application):
        return 1
    return max(1, sum(issubclass(operand.cls, ImplicitValue) for operand in event.operands))


# --- pages ---------------------------------------------------------------------------------------

_ABOUT = "What the run does with implicit arrays."
_FLOW_NOTE = (
    "In order, by scopes; what repeats stands once. The body of a loop is one call, however often "
    "it runs."
)


def _flow_dict(part: Scope[int] | Step[int]) -> dict[str, Any]:
    if isinstance(part, Step):
        return {"line": part.what, "count": part.count}
    parts = [_flow_dict(each) for each in part.parts]
    return {"name": part.name, "times": part.times, "parts": parts}


def _flow_html(lines: Sequence[Line], scope: Scope[int]) -> str:
    shown: list[str] = []
    for part in scope.parts:
        if isinstance(part, Step):
            line = lines[part.what]
            kind = "fine" if line.handler else "dense"
            outcome = _outcome_html(line, part.count) + listed(_shortened(line.notes))
            where = _where_html(line)
            shown.append(step(kind, part.count, _call_html(line), where, outcome))
            continue
        counts = list(replace(part, times=1).steps())
        dense = sum(count for what, count in counts if lines[what].handler is None)
        calls = _times(sum(count for _, count in counts))
        each = " each" if part.times > 1 else ""
        summary = code(part.name or "a round")
        if part.times > 1:
            summary += chip(f"{part.times} times")
        ends = f"{chip(f'{dense} dense', 'dense')} of " if dense else ""
        ends += f"{calls}{each}"
        summary += f'<span class="end muted">{ends}</span>'
        shown.append(folding(summary, _flow_html(lines, part), is_open=True))
    return "".join(shown)


def _call_html(line: Line) -> str:
    operands = [
        f'<span class="implicit">{html.escape(str(operand))}</span>'
        if issubclass(operand.cls, ImplicitValue)
        else html.escape(str(operand))
        for operand in line.operands
    ]
    return f"<code><b>{html.escape(line.primitive)}</b>({', '.join(operands)})</code>"


def _outcome_html(line: Line, count: int) -> str:
    """What became of so many of the calls of a line."""
    if line.handler is None:
        together = " in all" if line.count > count else ""
        return f'<span class="outcome">became dense, {human_bytes(line.nbytes)}{together}</span>'
    return _handler_html(line.handler, line.place)


def _handler_html(handler: str, place: str) -> str:
    return f"{code(handler)} {code(short_place(place), kind='muted', title=place)}"


def _where_html(line: Line) -> str:
    """The user's line: where it is, and what stands there."""
    if line.where is None:
        return code(NOWHERE, kind="muted")
    file, _, number = line.where.rpartition(":")
    source = linecache.getline(file, int(number)).strip()
    shown = f" {code(clipped(source, 120), kind='source')}" if source else ""
    return code(short_place(line.where), kind="muted", title=line.where) + shown


# --- explain -------------------------------------------------------------------------------------


@_jax.api_boundary
def explain(function: Callable[P, object], /) -> Callable[P, Explanation]:
    """A function that takes what `function` does and tells what the run does with implicit arrays.

    Nothing is computed: arguments of more than 1024 elements and `jax.ShapeDtypeStruct`s have no
    numbers in the run, and what depends on none of these is computed only where Python asks, as in
    a branch. Whatever JAX remembers of earlier runs plays no part.

    Raises:
        UsageError: `function` is not callable.

    Example:
        >>> import jax, jax.numpy as jnp, typedqax as tq
        >>> class Zeros(tq.ImplicitArray):
        ...     def materialize(self) -> jax.Array:
        ...         return jnp.zeros(self.shape, self.dtype)
        >>> f = tq.use_implicit_args(lambda x: -x)
        >>> explanation = tq.explain(f)(Zeros(shape=(3,), dtype=jnp.float32))
        >>> [line.primitive for line in explanation.materialized]
        ['neg']
    """
    if not callable(function):
        raise UsageError(
            f"explain takes a function, not {type(function).__name__}: explain(f)(*args), not "
            f"explain(f(*args))."
        )

    @_jax.transform_boundary
    @functools.wraps(function)
    def explained(*args: P.args, **kwargs: P.kwargs) -> Explanation:
        with recording() as record:
            dry_run(function, args, kwargs)
        return Explanation.of(record, getattr(function, "__name__", type(function).__name__))

    return explained
