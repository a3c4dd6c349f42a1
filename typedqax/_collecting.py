"""The refusals that are collected instead of raised, while a package is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from typedqax import _jax
from typedqax._errors import TypedQaxError


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was refused, and where the program asked for it.

    Attributes:
        error: why it was refused.
        file: where it was declared.
        line: the line there.
    """

    error: TypedQaxError
    file: str
    line: int


_collected: ContextVar[list[Refusal] | None] = ContextVar("typedqax_collected", default=None)


def is_collecting() -> bool:
    """Whether what registration refuses is collected here, not raised."""
    return _collected.get() is not None


def kept(error: TypedQaxError) -> bool:
    """Whether `error` was collected, so that there is no need to raise it."""
    collected = _collected.get()
    if collected is None:
        return False
    place = _jax.Frame.of(_jax.running_frame())
    collected.append(Refusal(error, place.file, place.line))
    return True


def refuse(error: TypedQaxError) -> None:
    """Raise `error`, unless it is collected; then the caller goes on without what it refuses."""
    if not kept(error):
        raise error


@contextmanager
def collecting() -> Iterator[list[Refusal]]:
    """Inside the block, declarations that are wrong do not stop the program.

    What is refused is collected. The rule of a handler that cannot be one is for nothing, a table
    is without what is no rule, a class stays as it is written. Tables are made, and installed, with
    whatever is ambiguous in them.
    """
    collected: list[Refusal] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
