"""The refusals that are collected instead of raised, while a package is checked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from typedqax._errors import SignatureError

_PACKAGE = str(Path(__file__).resolve().parent) + os.sep


@dataclass(frozen=True, slots=True)
class Refusal:
    """A handler that was refused, and where the program asked for it.

    Attributes:
        error: why it was refused.
        file: where it was declared.
        line: the line there.
    """

    error: SignatureError
    file: str
    line: int


_collected: ContextVar[list[Refusal] | None] = ContextVar("typedqax_collected", default=None)


def is_collecting() -> bool:
    """Whether what registration refuses is collected here, not raised."""
    return _collected.get() is not None


def kept(error: SignatureError) -> bool:
    """Whether `error` was collected, so that there is no need to raise it."""
    collected = _collected.get()
    if collected is None:
        return False
    frame = sys._getframe(1)  # the frames are where the program stands
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    collected.append(Refusal(error, frame.f_code.co_filename, frame.f_lineno))
    return True


@contextmanager
def collecting() -> Iterator[list[Refusal]]:
    """Inside the block, handlers and tables that are wrong do not stop the program.

    A handler that cannot be one is collected, and its rule is for nothing. Tables are made, and
    installed, with whatever is ambiguous in them.
    """
    collected: list[Refusal] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
