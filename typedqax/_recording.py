"""The record of a run: which handler ran where, which declined, and what became dense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._materialization import Materialization
from typedqax._origin import Place
from typedqax._signature import Operand


@dataclass(frozen=True, slots=True)
class Application:
    """A primitive that a handler computed.

    Attributes:
        primitive: the primitive's name.
        operands: its operands.
        handler: the name of the handler that ran.
        place: where that was written.
        declined: the handlers that declined before it, and why.
        source: where the primitive was applied.
        scopes: the parts of the program that it is in; None: those that `source` tells.
    """

    primitive: str
    operands: tuple[Operand, ...]
    handler: str
    place: Place
    declined: tuple[str, ...]
    source: _jax.SourceInfo
    scopes: tuple[str, ...] | None = None

    def within(self, source: _jax.SourceInfo, operands: Sequence[Argument | None]) -> Application:
        """The same, at `source`, in an inner function that was called with these arguments."""
        del operands  # nothing here names one
        return replace(self, source=source)


Event: TypeAlias = Application | Materialization
"""What a record keeps."""


def scopes_of(event: Event) -> tuple[str, ...]:
    """The parts of the program that it happened in, from the outermost on."""
    return _jax.name_scopes(event.source) if event.scopes is None else event.scopes


def put_inside(event: Event, outer: tuple[str, ...], name: str) -> Event:
    """`event` as one in the inner function of this name, which is called in the scopes `outer`."""
    own = scopes_of(event)
    if own[: len(outer)] == outer:  # JAX told them already
        own = own[len(outer) :]
    scopes = (*outer, *([name] if name else []), *own)
    return replace(event, scopes=scopes)


@dataclass(slots=True)
class Record:
    """All that happened while it was kept, in order."""

    events: list[Event] = field(default_factory=list)


_record: ContextVar[Record | None] = ContextVar("typedqax_record", default=None)


def kept_record() -> Record | None:
    """The record that is being kept here, if one is."""
    return _record.get()


@contextmanager
def recording() -> Iterator[Record]:
    """Keep a record in the block; what becomes dense is recorded, not warned of or forbidden."""
    record = Record()
    token = _record.set(record)
    try:
        with _jax.without_caches():
            yield record
    finally:
        _record.reset(token)
