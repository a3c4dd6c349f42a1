"""The flow of a program: what happens in it, in order and by scopes, what repeats standing once."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")

_LONGEST_ROUND = 48
"""The most parts that a repeated round may have."""


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """Something that happens so many times in a row.

    Attributes:
        what: what happens.
        count: how often.
    """

    what: T
    count: int = 1

    @property
    def name(self) -> str:
        """A step has none."""
        return ""


@dataclass(frozen=True, slots=True)
class Scope(Generic[T]):
    """A part of the program.

    Attributes:
        name: its name, or names: those of nested scopes that hold nothing else, or of the first
            and the last of several that are the same. Empty for a round that repeats.
        parts: what happens in it, in order.
        times: how many such scopes follow one another.
    """

    name: str
    parts: tuple[Part[T], ...]
    times: int = 1

    def steps(self) -> Iterator[tuple[T, int]]:
        """All that happens in it, and how often all in all."""
        for part in self.parts:
            if isinstance(part, Step):
                yield part.what, part.count * self.times
            else:
                for what, count in part.steps():
                    yield what, count * self.times


Part: TypeAlias = Step[T] | Scope[T]


def flow(events: Iterable[tuple[Sequence[str], T]]) -> Scope[T]:
    """The flow of what happened in some scopes, each given by its names from the outermost on."""
    return _folded(Scope("", _parts(list(events), 0)))


def _parts(events: Sequence[tuple[Sequence[str], T]], depth: int) -> tuple[Part[T], ...]:
    """The events of one scope, which is this deep, as parts of it."""
    parts: list[Part[T]] = []
    start = 0
    while start < len(events):
        names, what = events[start]
        if len(names) <= depth:
            parts.append(Step(what))
            start += 1
            continue
        stop = start
        while stop < len(events) and list(events[stop][0][: depth + 1]) == list(names[: depth + 1]):
            stop += 1
        parts.append(Scope(names[depth], _parts(events[start:stop], depth + 1)))
        start = stop
    return tuple(parts)


def _folded(scope: Scope[T]) -> Scope[T]:
    parts = [part if isinstance(part, Step) else _folded(part) for part in scope.parts]
    folded = Scope(scope.name, tuple(_rounds(parts)), scope.times)
    if len(folded.parts) != 1 or not folded.name:
        return folded
    (only,) = folded.parts
    if isinstance(only, Scope) and only.times == 1:  # nothing but a scope in it
        return replace(only, name=f"{folded.name} / {only.name}" if only.name else folded.name)
    return folded


def _rounds(parts: Sequence[Part[T]]) -> Iterator[Part[T]]:
    """The parts, of rounds that repeat only the first."""
    merged = [_times(same[0], same[-1].name, len(same)) for same in _same_in_a_row(parts)]
    alike = [_without_numbers(part) for part in merged]
    start = 0
    while start < len(merged):
        length, times = _round_at(alike, start)
        if times == 1:
            yield merged[start]
        else:
            yield Scope("", tuple(merged[start : start + length]), times)
        start += length * times


def _same_in_a_row(parts: Sequence[Part[T]]) -> list[list[Part[T]]]:
    return [list(same) for _, same in itertools.groupby(parts, _without_numbers)]


def _times(part: Part[T], last: str, times: int) -> Part[T]:
    """`part` as the first of several, the last of which has the name `last`."""
    if isinstance(part, Step):
        return replace(part, count=part.count * times)
    name = part.name if last == part.name else f"{part.name} … {last}"
    return replace(part, name=name, times=part.times * times)


def _round_at(alike: Sequence[object], start: int) -> tuple[int, int]:
    """The length of the shortest round that repeats from here on, and how many there are."""
    left = len(alike) - start
    for length in range(2, min(_LONGEST_ROUND, left // 2) + 1):
        first = alike[start : start + length]
        times = 1
        while alike[start + times * length : start + (times + 1) * length] == first:
            times += 1
        if times > 1:
            return length, times
    return 1, 1


def _without_numbers(part: Part[T]) -> object:
    """What tells parts apart: names with other numbers in them are the same, as of layers."""
    if isinstance(part, Step):
        return part
    inner = tuple([_without_numbers(each) for each in part.parts])
    return re.sub(r"\d+", "#", part.name), inner, part.times
