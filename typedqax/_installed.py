"""The process-wide table: what is installed, and what is being declared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from typedqax._table import HandlerTable, Rule

_parts: list[HandlerTable | Rule] = []


def install(table: HandlerTable | Rule) -> None:
    """Add `table` (or one rule) to the process-wide table."""
    _parts.append(table)


def uninstall(table: HandlerTable) -> None:
    """Take `table` out of the process-wide table."""
    _parts.remove(table)


@contextmanager
def installed(table: HandlerTable) -> Iterator[HandlerTable]:
    """`table` is installed inside the block."""
    install(table)
    try:
        yield table
    finally:
        uninstall(table)


@contextmanager
def declaring() -> Iterator[None]:
    """What is installed or decorated inside the block is sealed together at its end."""
    yield


def installed_table() -> HandlerTable:
    """All that is installed, as one table."""
    return HandlerTable("installed", *_parts)
