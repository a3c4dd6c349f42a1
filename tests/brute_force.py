"""An oracle for the resolver: sets of points, built forwards from every valuation of the names.

Independent of the library on purpose: its own reading of the axes' text, no matcher, no
unification. A row is one text of axes for each operand; a point one shape for each operand.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

Row = tuple[str, ...]
Shape = tuple[int, ...]
Point = tuple[Shape, ...]

NAME = re.compile(r"[a-z]\w*")
FUNCTIONS = {"min": min, "max": max, "abs": abs}


def expression_names(text: str) -> set[str]:
    return set(NAME.findall(text)) - set(FUNCTIONS)


def axes(text: str) -> list[tuple[str, bool, Any]]:
    """(kind, broadcast, value) for each axis: any, many, size, name, section, expression."""
    found: list[tuple[str, bool, Any]] = []
    for part in text.split():
        broadcast = part.startswith("#")
        part = part.removeprefix("#")  # noqa: PLW2901  # peeled from the left
        if "=" in part:
            part = part.split("=")[1]  # noqa: PLW2901  # the same
        if part == "...":
            found.append(("section", False, "?"))
        elif part.startswith("_"):
            found.append(("name", False, "?"))
        elif part.startswith("*"):
            found.append(("section", broadcast, part[1:]))
        elif part.isdigit():
            found.append(("size", broadcast, int(part)))
        elif part.isidentifier():
            found.append(("name", broadcast, part))
        else:
            found.append(("expression", broadcast, part))
    return found


def is_well_formed(row: Row) -> bool:
    """Every name in an expression has an axis of its own; one section an operand."""
    plain = {v for text in row for kind, b, v in axes(text) if kind == "name" and not b} - {"?"}
    used = {
        name
        for text in row
        for kind, _, value in axes(text)
        if kind == "expression"
        for name in expression_names(value)
    }
    return used <= plain and all(
        sum(kind == "section" for kind, _, _ in axes(text)) <= 1 for text in row
    )


@lru_cache
def tuples(sizes: tuple[int, ...], longest: int) -> list[Shape]:
    """Every shape of these sizes and no more axes than `longest`."""
    return [t for n in range(longest + 1) for t in itertools.product(sizes, repeat=n)]


def parts_of(target: Shape) -> list[Shape]:
    """Every section that broadcasts to `target`."""
    return [
        part
        for n in range(len(target) + 1)
        for part in itertools.product(*(sorted({1, size}) for size in target[len(target) - n :]))
    ]


def _evaluate(text: str, sizes: Mapping[str, int]) -> int | None:
    try:
        return int(eval(text, {"__builtins__": {}, **FUNCTIONS}, dict(sizes)))
    except ZeroDivisionError:
        return None


def _shapes(
    operand: Sequence[tuple[str, bool, Any]],
    names: Mapping[str, int],
    sections: Mapping[str, Shape],
    sizes: tuple[int, ...],
    longest: int,
) -> list[Shape]:
    """Every shape of these sizes that the axes allow under one valuation of the names."""
    choices: list[list[Shape]] = []
    for kind, broadcast, value in operand:
        if value == "?":  # an axis or a section without a name
            room = longest - len(operand) + 1
            choices.append(tuples(sizes, room) if kind == "section" else tuples(sizes, 1)[1:])
            continue
        if kind == "section":
            target = sections[value]
            choices.append(parts_of(target) if broadcast else [target])
            continue
        size = value if kind == "size" else names[value] if kind == "name" else None
        if kind == "expression":
            size = _evaluate(value, names)
        options: list[tuple[int, ...]] = [] if size is None or size < 0 else [(size,)]
        if broadcast and size != 1:
            options.append((1,))
        choices.append(options)
    allowed = set(sizes)
    return [
        shape
        for parts in itertools.product(*choices)
        if len(shape := tuple(itertools.chain.from_iterable(parts))) <= longest
        and allowed.issuperset(shape)
    ]


@lru_cache(maxsize=4096)
def points(row: Row, sizes: tuple[int, ...], longest: int) -> frozenset[Point]:
    """Every point with these sizes and no more axes than `longest` that the row allows."""
    parsed = [axes(text) for text in row]
    names = sorted({v for o in parsed for k, _, v in o if k == "name"} - {"?"})
    sections = sorted({v for o in parsed for k, _, v in o if k == "section"} - {"?"})
    every = []
    for name in sections:
        # As long as there is room for in some operand: more than that, no part of it can be.
        used = [o for o in parsed if any(k == "section" and v == name for k, _, v in o)]
        every.append(tuples(sizes, longest - min(len(o) - 1 for o in used)))
    found: set[Point] = set()
    known: dict[Any, list[Shape]] = {}
    uses = [_names_in(operand) for operand in parsed]
    for some in itertools.product(sizes, repeat=len(names)):
        by_name = dict(zip(names, some, strict=True))
        for others in itertools.product(*every):
            by_section = dict(zip(sections, others, strict=True))
            shapes = []
            for i, operand in enumerate(parsed):
                key = (
                    i,
                    *[by_name[n] for n in names if n in uses[i]],
                    *[by_section[n] for n in sections if "*" + n in uses[i]],
                )
                if key not in known:
                    known[key] = _shapes(operand, by_name, by_section, sizes, longest)
                shapes.append(known[key])
            found.update(itertools.product(*shapes))
    return frozenset(found)


def _names_in(operand: Sequence[tuple[str, bool, Any]]) -> set[str]:
    found: set[str] = set()
    for kind, _, value in operand:
        if kind == "expression":
            found |= expression_names(value)
        elif kind == "name":
            found.add(value)
        elif kind == "section":
            found.add("*" + value)
    return found


def contains(row: Row, point: Point) -> bool:
    """Whether the row allows one given point, however large: valuations made of its own parts."""
    parsed = [axes(text) for text in row]
    sizes = tuple(sorted({size for shape in point for size in shape} | {1}))
    names = sorted({v for operand in parsed for k, _, v in operand if k == "name"} - {"?"})
    plain = {v for operand in parsed for k, b, v in operand if k == "section" and not b}
    only_broadcast = (
        {v for operand in parsed for k, _, v in operand if k == "section"} - plain - {"?"}
    )
    # Names first: an operand without sections settles most of them.
    if any(
        len(shape) < sum(k != "section" for k, _, _ in operand)
        for operand, shape in zip(parsed, point, strict=True)
    ):
        return False

    def section_of(operand: Sequence[tuple[str, bool, Any]], shape: Shape) -> Shape:
        before = [k for k, _, _ in operand].index("section")
        return shape[before : len(shape) - (len(operand) - before - 1)]

    sections: dict[str, Shape] = {}
    for operand, shape in zip(parsed, point, strict=True):
        for kind, broadcast, value in operand:
            if kind == "section" and not broadcast and value != "?":
                sections.setdefault(value, section_of(operand, shape))
    choices: list[list[Shape]] = []
    for name in sorted(only_broadcast):
        uses = [
            section_of(operand, shape)
            for operand, shape in zip(parsed, point, strict=True)
            if any(k == "section" and v == name for k, _, v in operand)
        ]
        length = max(map(len, uses))
        columns = [
            sorted({u[len(u) - k] for u in uses if len(u) >= k} | {1}) for k in range(length, 0, -1)
        ]
        choices.append(list(itertools.product(*columns)))
    bound: list[list[int]] = []
    for name in names:
        here = [
            {shape[i if not after else i - len(operand)]}
            for operand, shape in zip(parsed, point, strict=True)
            for i, (k, b, v) in enumerate(operand)
            if k == "name" and v == name and not b
            for after in [any(kk == "section" for kk, _, _ in operand[:i])]
        ]
        bound.append(sorted(set.intersection(*here)) if here else list(sizes))
    for some in itertools.product(*bound):
        by_name = dict(zip(names, some, strict=True))
        for others in itertools.product(*choices):
            by_section = {**sections, **dict(zip(sorted(only_broadcast), others, strict=True))}
            if all(
                shape in _shapes(operand, by_name, by_section, sizes, len(shape))
                for operand, shape in zip(parsed, point, strict=True)
            ):
                return True
    return False


# --- random rows ----------------------------------------------------------------------------

Choose = Callable[[Sequence[Any]], Any]

AXES = ["n", "n", "m", "m", "k", "_", "_", "2", "3", "1"]
BROADCAST = ["#n", "#m", "#2"]
SYMBOLIC = ["n+1", "2*n", "n*m", "m-1", "n-m", "n//2", "#n+1", "min(n,m)", "n+m", "n**2"]
SECTIONS = ["...", "*a", "*a", "*b", "#*a", "#*b"]


def random_row(
    choose: Choose, arity: int, longest: int, *, symbolic: bool = False, broadcast: bool = True
) -> Row:
    """A row in which names, sections and `#` are common."""
    pool = AXES * 2 + (BROADCAST * 2 if broadcast else []) + (SYMBOLIC if symbolic else [])
    sections = SECTIONS if broadcast else [s for s in SECTIONS if s[0] != "#"]
    while True:
        row = []
        for _ in range(arity):
            parts = [choose(pool) for _ in range(choose(range(longest + 1)))]
            if choose([True, True, False]):
                parts.insert(choose(range(len(parts) + 1)), choose(sections))
            row.append(" ".join(parts))
        if is_well_formed(tuple(row)):
            return tuple(row)


def mutated(choose: Choose, row: Row, *, symbolic: bool = False, broadcast: bool = True) -> Row:
    """The row with one part changed, so that one often contains the other."""
    pool = AXES + (BROADCAST if broadcast else []) + (SYMBOLIC if symbolic else [])
    sections = SECTIONS if broadcast else [s for s in SECTIONS if s[0] != "#"]
    for _ in range(20):
        texts = [text.split() for text in row]
        parts = choose(texts)
        action = choose(["drop", "add", "change", "change", "section"])
        if action == "add":
            parts.insert(choose(range(len(parts) + 1)), choose(pool))
        elif action == "section":
            kept = [p for p in parts if "*" not in p[:2] and p != "..."]
            kept.insert(choose(range(len(kept) + 1)), choose(sections))
            parts[:] = kept
        elif parts and action == "drop":
            parts.pop(choose(range(len(parts))))
        elif parts:
            parts[choose(range(len(parts)))] = choose(pool)
        changed = tuple(" ".join(p) for p in texts)
        if is_well_formed(changed):
            return changed
    return row


def random_pair(choose: Choose, arity: int, longest: int, **kind: bool) -> tuple[Row, Row]:
    """Two rows, half of the time one a change of the other."""
    first = random_row(choose, arity, longest, **kind)
    if choose([True, False]):
        return first, random_row(choose, arity, longest, **kind)
    second = mutated(choose, first, **kind)
    return (first, second) if choose([True, False]) else (second, first)
