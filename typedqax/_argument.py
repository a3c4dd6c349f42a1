"""The argument that an implicit array is, or was computed from, as the user would write it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from jax.tree_util import DictKey, GetAttrKey, SequenceKey, keystr

KeyPath: TypeAlias = tuple[Any, ...]

_LONGEST_PATH: Final = 200
_MOST_STEPS: Final = 3
"""So many primitives that an array went through are told; more would not find it sooner."""


@dataclass(slots=True, eq=False)  # not frozen: each takes three times as long to make then
class Argument:
    """Where an implicit array comes from.

    A function that was rewritten once serves many callers, so what is inside it knows only the
    number of the operand; `within` makes that the argument of one caller.

    Attributes:
        root: the function whose argument it is; or the number of an operand of an inner function.
        path: the keys from `(args, kwargs)`, or from the operand, to it.
        through: the primitives that computed it from what is there; none, if it is that itself.
    """

    root: Callable[..., Any] | int
    path: KeyPath = ()
    through: tuple[str, ...] = ()

    def field(self, name: str) -> Argument:
        """A field of it; of what was computed from an argument, no more is known than of it."""
        if self.through:
            return self
        return Argument(self.root, (*self.path, GetAttrKey(name)))

    def computed_by(self, primitive: str) -> Argument:
        """What `primitive` computes from it."""
        through = self.through
        return Argument(self.root, self.path, (*through, primitive)[: _MOST_STEPS + 1])

    def within(self, operands: Sequence[Argument | None]) -> Argument | None:
        """The same inside a function that was called with operands of these arguments."""
        if not isinstance(self.root, int):
            return self
        outer = operands[self.root] if self.root < len(operands) else None
        if outer is None:
            return None
        path = outer.path if outer.through else (*outer.path, *self.path)
        through = (*outer.through, *self.through)[: _MOST_STEPS + 1]
        return Argument(outer.root, path, through)

    @property
    def name(self) -> str | None:
        """The argument itself, `params['h'][0]['kernel']`; None where no caller is known."""
        if isinstance(self.root, int):
            return None
        text = _argument_name(self.root, self.path)
        if len(text) <= _LONGEST_PATH:
            return text
        half = (_LONGEST_PATH - 5) // 2
        return f"{text[:half]} ... {text[-half:]}"

    def __str__(self) -> str:
        name = self.name or "an argument"
        if not self.through:
            return name
        *steps, last = self.through
        if len(self.through) > _MOST_STEPS:
            last = "more"
        return f"{name} through {' and '.join([', '.join(steps), last] if steps else [last])}"


def _argument_name(function: Callable[..., Any], path: KeyPath) -> str:
    """A path in `(args, kwargs)` with the name that `function` gives the argument."""
    _, first, *rest = path
    if isinstance(first, DictKey):
        return f"{first.key}{keystr(tuple(rest))}"
    place = first.idx
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of a builtin, which does not tell
        parameters = []
    for number, parameter in enumerate(parameters):
        if parameter.kind is parameter.VAR_POSITIONAL:
            return f"{parameter.name}{keystr((SequenceKey(place - number), *rest))}"
        if number == place:
            return f"{parameter.name}{keystr(tuple(rest))}"
    return f"args{keystr((SequenceKey(place), *rest))}"
