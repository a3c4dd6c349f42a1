"""Dims: what one annotation says of a shape, and whether shapes fit a row of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

from typedqax._polynomial import (
    ExpressionError,
    Polynomial,
    Size,
    names_of,
    parse_expression,
)

Shape: TypeAlias = tuple[Size, ...]


class AnnotationError(Exception):
    """An annotation means nothing on an operand; the facts, for whoever knows the handler.

    Attributes:
        problem: what is wrong, a clause without a final stop.
        advice: what to write instead, a clause without a final stop.
        parameter: the parameter it is about, when known.
        code: `"shape"` where the text of a shape is wrong; `"unbound-axis"` where an axis that it
            uses has no size; else `"annotation"`.
    """

    def __init__(
        self,
        problem: str,
        advice: str,
        parameter: str | None = None,
        *,
        code: str = "annotation",
    ) -> None:
        self.problem, self.advice, self.parameter = problem, advice, parameter
        self.code = code
        super().__init__(problem, advice, parameter)

    def __str__(self) -> str:
        where = f"parameter {self.parameter!r}: " if self.parameter else ""
        return f"{where}{self.problem}; {self.advice}"

    def of(self, parameter: str) -> AnnotationError:
        """The same facts about the named parameter."""
        return AnnotationError(self.problem, self.advice, parameter, code=self.code)


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a shape.

    Attributes:
        size: an int, a name, an expression of names, or None for any size.
        broadcast: written with `#`: a size of 1 fits as well.
    """

    size: int | str | Polynomial | None
    broadcast: bool = False

    def __str__(self) -> str:
        return ("#" if self.broadcast else "") + ("_" if self.size is None else str(self.size))


@dataclass(frozen=True, slots=True)
class Section:
    """Any number of axes: `...` (no name), `*b`, or `#*b`."""

    name: str | None
    broadcast: bool = False

    def __str__(self) -> str:
        if self.name is None:
            return "..."
        return ("#*" if self.broadcast else "*") + self.name


ANYTHING = Section(None)


@dataclass(frozen=True)
class Dims:
    """The axes of one operand: those on the left, at most one section, those on the right.

    Attributes:
        left: axes before the section; all of them when there is none.
        section: the part of any length, if any.
        right: axes after the section.
    """

    left: tuple[Axis, ...]
    section: Section | None = None
    right: tuple[Axis, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.left, self.section, self.right)))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def fixed(self) -> int:
        """How many axes it has besides the section."""
        return len(self.left) + len(self.right)

    def fits_rank(self, rank: int) -> bool:
        """Whether a shape of so many axes has the right number of them."""
        return rank == len(self.left) if self.section is None else rank >= self.fixed

    @cached_property
    def is_free(self) -> bool:
        """Whether every shape fits, whatever the other operands are."""
        return self.section == ANYTHING and not self.left and not self.right

    @cached_property
    def plain(self) -> tuple[tuple[int, int | str], ...]:
        """(position, size) of the axes that are a number or a name; from the right: negative."""
        return tuple(
            (position, axis.size)
            for position, axis in self.positions
            if not axis.broadcast and isinstance(axis.size, int | str)
        )

    @cached_property
    def deferred(self) -> tuple[tuple[int, Axis], ...]:
        """(position, axis) of those that can only be judged when every name is bound."""
        return tuple(
            (position, axis)
            for position, axis in self.positions
            if axis.broadcast or isinstance(axis.size, Polynomial)
        )

    @cached_property
    def positions(self) -> tuple[tuple[int, Axis], ...]:
        """Every single axis with its index; those right of a section count from the end."""
        offset = -len(self.right)
        return tuple(enumerate(self.left)) + tuple(
            (offset + i, axis) for i, axis in enumerate(self.right)
        )

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name in it, a section's with its star."""
        found: set[str] = set()
        for _, axis in self.positions:
            if isinstance(axis.size, str):
                found.add(axis.size)
            else:
                found |= names_of(axis.size)
        if self.section is not None and self.section.name is not None:
            found.add("*" + self.section.name)
        return frozenset(found)

    @cached_property
    def plain_names(self) -> frozenset[str]:
        """Names that an axis of their own binds, a section's with its star."""
        found = {size for _, size in self.plain if isinstance(size, str)}
        section = self.section
        if section is not None and section.name is not None and not section.broadcast:
            found.add("*" + section.name)
        return frozenset(found)

    def __str__(self) -> str:
        parts = [*map(str, self.left)]
        if self.section is not None:
            parts.append(str(self.section))
        return " ".join([*parts, *map(str, self.right)])


ANY_SHAPE = Dims((), ANYTHING)


@lru_cache(maxsize=4096)
def parse_dims(text: str) -> Dims:
    """What the text of a jaxtyping annotation says of a shape.

    Raises:
        AnnotationError: a part of it means nothing for an operand.
    """
    left: list[Axis] = []
    right: list[Axis] = []
    section: Section | None = None
    if "{" in text or "}" in text:
        raise AnnotationError(
            f"the axes {text!r} are value-dependent ({{...}} is the value of an argument)",
            "dispatch sees class, dtype and shape only: name the axis, and check the value in "
            "the handler",
            code="shape",
        )
    for part in text.split():
        item = _parse_axis(part, text)
        if isinstance(item, Section):
            if section is not None:
                raise AnnotationError(
                    f"the axes {text!r} have two parts of any length",
                    "keep one of `...` and `*name` in an annotation",
                    code="shape",
                )
            section = item
        else:
            (left if section is None else right).append(item)
    return Dims(tuple(left), section, tuple(right))


def _parse_axis(part: str, text: str) -> Axis | Section:
    if part == "...":
        return ANYTHING
    marks, rest = "", part
    while rest and (rest[0] in "#*_?" or rest.count("=") == 1):
        if rest[0] in "#*_?":
            if rest[0] in marks:
                raise _misspelt(part, text, f"it has `{rest[0]}` twice")
            marks, rest = marks + rest[0], rest[1:]
        else:
            rest = rest.split("=")[1]
            if not rest:
                raise _misspelt(part, text, "nothing follows the `=`")
    if "?" in marks:
        raise AnnotationError(
            f"the axis {part!r} in {text!r} is a ?name, which only means something in a PyTree",
            f"write {rest or 'a name'!r}: an operand is one array",
            code="shape",
        )
    broadcast, anonymous, variadic = "#" in marks, "_" in marks, "*" in marks
    if anonymous:
        if broadcast or (rest and not rest.isidentifier()):
            raise _misspelt(part, text, "an axis without a name is `_` or `_name`")
        return ANYTHING if variadic else Axis(None)
    if not rest:
        raise _misspelt(part, text, f"no name follows the `{marks}`")
    if variadic:
        if not rest.isidentifier():
            raise _misspelt(part, text, "only a name can follow the `*`")
        return Section(rest, broadcast)
    if rest.isidentifier():
        return Axis(rest, broadcast)
    try:
        size = parse_expression(rest)
    except ExpressionError as error:
        raise _misspelt(part, text, str(error)) from None
    if isinstance(size, int) and size < 0:
        raise _misspelt(part, text, "no size is negative")
    return Axis(size, broadcast)


def _misspelt(part: str, text: str, reason: str) -> AnnotationError:
    return AnnotationError(
        f"the axis {part!r} in {text!r} cannot be read: {reason}",
        "separate axes by spaces, each a name, a number, `_`, `...`, `*name`, `#name` or an "
        "expression without spaces such as `n+1`",
        code="shape",
    )


Bindings: TypeAlias = dict[str, Any]


def match_shapes(patterns: Sequence[Dims], shapes: Sequence[Shape]) -> Bindings | None:
    """The sizes of all names if the shapes fit the patterns, names shared by all; else None.

    A section's name stands in the result with its star, and is bound to a tuple.
    """
    bound: Bindings = {}
    deferred = False
    for dims, shape in zip(patterns, shapes, strict=True):
        section = dims.section
        if section is None:
            if len(shape) != len(dims.left):
                return None
        elif len(shape) < dims.fixed:
            return None
        for position, wanted in dims.plain:
            size = shape[position]
            if type(wanted) is str:
                known = bound.setdefault(wanted, size)
                if known is not size and known != size:
                    return None
            elif wanted != size:
                return None
        if dims.deferred:
            deferred = True
        if section is not None and section.name is not None:
            if section.broadcast:
                deferred = True
            else:
                part = shape[len(dims.left) : len(shape) - len(dims.right)]
                if bound.setdefault("*" + section.name, part) != part:
                    return None
    if deferred and not _match_deferred(patterns, shapes, bound):
        return None
    return bound


def _match_deferred(patterns: Sequence[Dims], shapes: Sequence[Shape], bound: Bindings) -> bool:
    plain = frozenset(bound)
    for dims, shape in zip(patterns, shapes, strict=True):
        for position, axis in dims.deferred:
            size, wanted = shape[position], axis.size
            if axis.broadcast and size == 1:
                continue
            if isinstance(wanted, Polynomial):
                try:
                    wanted = wanted.evaluate(bound)
                except ZeroDivisionError:
                    return False
            elif isinstance(wanted, str):
                wanted = bound.setdefault(wanted, size)
            if wanted != size:
                return False
        section = dims.section
        if section is not None and section.broadcast and section.name is not None:
            name = "*" + section.name
            part = shape[len(dims.left) : len(shape) - len(dims.right)]
            if name in plain:
                if not _broadcasts_to(part, bound[name]):
                    return False
            else:
                joined = _broadcast(part, bound.get(name, ()))
                if joined is None:
                    return False
                bound[name] = joined
    for dims in patterns:  # names that are only ever broadcast, and always 1
        for _, axis in dims.deferred:
            if isinstance(axis.size, str):
                bound.setdefault(axis.size, 1)
    return True


def _broadcasts_to(part: Shape, target: Shape) -> bool:
    if len(part) > len(target):
        return False
    offset = len(target) - len(part)
    return all(size == 1 or size == target[offset + i] for i, size in enumerate(part))


def _broadcast(left: Shape, right: Shape) -> Shape | None:
    if len(left) < len(right):
        left, right = right, left
    offset = len(left) - len(right)
    joined = list(left)
    for i, size in enumerate(right):
        other = joined[offset + i]
        if other == 1:
            joined[offset + i] = size
        elif size not in (1, other):
            return None
    return tuple(joined)
