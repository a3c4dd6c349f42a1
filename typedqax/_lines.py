"""What happened in a run, by primitives and lines of the user's code, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from typedqax import _jax
from typedqax._flow import Scope, flow
from typedqax._layout import human_bytes, short_place
from typedqax._materialization import ASKERS, Materialization
from typedqax._reason import Reason
from typedqax._recording import Application, Record, scopes_of
from typedqax._signature import Operand
from typedqax._value import ImplicitValue

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
        forbidden: whether a policy forbids that the operand becomes dense.
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
    forbidden: bool = False

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
        if self.forbidden:
            notes.append("forbidden: where it runs, this is a MaterializationError")
        if self.remedy:
            notes.append(f"what would help: {self.remedy}")
        return tuple(notes)

    @property
    def short_notes(self) -> tuple[str, ...]:
        """The same with the places in files as short as a reader needs them."""
        return tuple(
            [
                note.with_places(lambda place: short_place(str(place)))
                if isinstance(note, Reason)
                else note
                for note in self.notes
            ]
        )

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


def lines_of(record: Record) -> tuple[tuple[Line, ...], Scope[int]]:
    """What a record has, in the order of first calls; and as it went, by numbers of these lines."""
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
    return tuple(counted), flow(steps)


def counted(counts: Mapping[str, int]) -> str:
    """Names, each with how often."""
    return ", ".join(f"{each} x{count}" for each, count in counts.items())


def times(count: int) -> str:
    """A number of calls."""
    return f"{count} call{'' if count == 1 else 's'}"


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
        any(event.forbidden for event in dense),
    )


def _implicit_operands(event: Application | Materialization) -> int:
    """How many events its call has."""
    if isinstance(event, Application):
        return 1
    return max(1, sum(issubclass(operand.cls, ImplicitValue) for operand in event.operands))
