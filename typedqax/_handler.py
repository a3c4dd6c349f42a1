"""A handler: a plain function, and what its own signature says about the calls it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """A function that computes a primitive on some kinds of operands."""

    function: Callable[..., Any]
    name: str
    place: Place
    first: bool

    @classmethod
    def of(cls, function: Callable[..., Any], *, takes_first: bool) -> Handler:
        """The handler that `function` describes."""
        code = function.__code__
        return cls(
            function, function.__name__, Place(code.co_filename, code.co_firstlineno), takes_first
        )
