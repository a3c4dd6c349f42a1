"""The record of a run: which handler ran where, which declined, and what became dense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

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
    """

    primitive: str
    operands: tuple[Operand, ...]
    handler: str
    place: Place
    declined: tuple[str, ...]
    source: _jax.SourceInfo

    def within(self, source: _jax.SourceInfo, operands: Sequence[Argument | None]) -> Application:
        """The same, at `source`, in an inner function that was called with these arguments."""
        del operands  # nothing here names one
        return replace(self, source=source)


@dataclass(slots=True)
class Record:
    """All that happened while it was kept, in order."""

    events: list[Application | Materialization] = field(default_factory=list)


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
