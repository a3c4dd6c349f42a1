"""Region: shapes that fit some rows of dims and exactly these of others, found by examples.

A *row* is one `Dims` for each operand, with axis names shared along the row. The question that
every relation comes down to is: which shapes fit all rows of `meet`, and which rows of `tests`
cannot be avoided by them? It is answered by **canonical instances**.

1. Fix the ranks. A section then is that many axes of its own (`*b` becomes the names b1, b2, ..
   counted from the right).
2. Split each `#` axis into "is 1" and "is its name". What is left says only that some axes are
   equal, or equal to a number or an expression.
3. Give each class of equal axes a size of its own that occurs nowhere else: the canonical instance.

A row of `tests` contains every shape of step 3 if and only if it contains the canonical instance:
a row is an existential statement about equalities, so it stays true when sizes are substituted,
and a generic point satisfies only those equalities that `meet` implies. Sizes are unlimited, so
finitely many rows that each demand a further equality never cover the whole together: to know what
several rows cover it is enough to ask for each whether it matches.

Which ranks are enough is said and proved in `_ranks`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from typedqax._dims import ANYTHING, Axis, Dims, Section, Shape, match_shapes
from typedqax._equations import is_negative, is_zero, solve
from typedqax._polynomial import Polynomial, Size, evaluate, names_of, substitute
from typedqax._ranks import Columns, Row, rank_limits

RANK_SLACK = 0
"""Added to every rank limit. Tests raise it, to see that nothing changes, and lower it, to see that
something does."""

BUDGET = 10_000
"""Instances and ranks that one question may look at before the answer is "maybe"."""

_FRESH = 1_000_003  # sizes that no annotation mentions


@dataclass(frozen=True, slots=True)
class Region:
    """Some shapes that fit every row of `meet`.

    Attributes:
        inside: bit i is set if row i of `tests` contains all of them.
        shapes: one of them.
        certain: False if there may be no such shapes at all: `shapes` is a guess.
    """

    inside: int
    shapes: tuple[Shape, ...]
    certain: bool = True


class _OutOfBudgetError(Exception):
    pass


def regions(meet: Sequence[Row], tests: Sequence[Row]) -> tuple[Region, ...]:
    """The regions of `meet` that avoid as many of `tests` as possible; none if `meet` is empty.

    For every shape that fits all rows of `meet` there is a region whose tests all contain it.
    """
    inside, outside = tuple(map(canonical, meet)), tuple(map(canonical, tests))
    if not any(row in inside for row in outside):
        return _regions(inside, outside, RANK_SLACK)
    # What is a row of meet itself contains everything: that need not be found out.
    open_tests = [i for i, row in enumerate(outside) if row not in inside]
    always = sum(1 << i for i, row in enumerate(outside) if row in inside)
    return tuple(
        replace(
            region,
            inside=always | sum(1 << i for k, i in enumerate(open_tests) if region.inside >> k & 1),
        )
        for region in _regions(inside, tuple(outside[i] for i in open_tests), RANK_SLACK)
    )


@lru_cache(maxsize=16_384)
def canonical(row: Row) -> Row:
    """The row with its names replaced by their order, and those that tie nothing left out."""
    uses: dict[str, int] = {}
    for dims in row:
        for _, axis in dims.positions:
            names = (axis.size,) if isinstance(axis.size, str) else names_of(axis.size)
            for name in names:
                uses[name] = uses.get(name, 0) + 1
        if dims.section is not None and dims.section.name is not None:
            name = "*" + dims.section.name
            uses[name] = uses.get(name, 0) + 1
    order: dict[str, str] = {}

    def new_name(name: str) -> str:
        return order.setdefault(name, f"a{len(order)}")

    def new_axis(axis: Axis) -> Axis:
        size = axis.size
        if isinstance(size, str):
            return Axis(None) if uses[size] == 1 else Axis(new_name(size), axis.broadcast)
        if isinstance(size, Polynomial):
            renamed = {n: Polynomial.variable(new_name(n)) for n in sorted(size.names())}
            return Axis(size.evaluate(renamed), axis.broadcast)
        return Axis(size) if size is None or size == 1 else axis

    def new_section(section: Section | None) -> Section | None:
        if section is None or section.name is None:
            return section
        if uses["*" + section.name] == 1:
            return ANYTHING
        return Section(new_name("*" + section.name), section.broadcast)

    return tuple(
        Dims(
            tuple(map(new_axis, dims.left)),
            new_section(dims.section),
            tuple(map(new_axis, dims.right)),
        )
        for dims in row
    )


@lru_cache(maxsize=65_536)
def _regions(meet: tuple[Row, ...], tests: tuple[Row, ...], slack: int) -> tuple[Region, ...]:
    search = _Search(meet, tests, slack)
    try:
        search.run()
    except _OutOfBudgetError:
        search.exact = False
    if not search.exact:
        search.found = [r for r in search.found if r.certain]
        if not any(r.inside == 0 for r in search.found):
            shapes = tuple((1,) * dims.fixed for dims in meet[0])
            search.found.append(Region(0, shapes, certain=False))
    return tuple(search.found)


class _Search:
    """One question, as it is worked on."""

    def __init__(self, meet: tuple[Row, ...], tests: tuple[Row, ...], slack: int) -> None:
        self.meet, self.tests = meet, tests
        self.arity = len(meet[0])
        self.found: list[Region] = []
        self.exact = True
        self.spent = 0
        self.symbolic = any(
            isinstance(axis.size, Polynomial)
            for row in (*meet, *tests)
            for dims in row
            for _, axis in dims.positions
        )
        self.limits = rank_limits(meet, tests)
        self.slack = slack

    def run(self) -> None:
        if self.limits is None:
            return
        self.exact = self.limits.proved
        for ranks in self.rank_tuples():
            for shapes, _ in _instances(
                self.meet, ranks, self.limits.columns, self.symbolic, self.spend
            ):
                self.spend()
                self.add(shapes)
                if any(r.inside == 0 and r.certain for r in self.found):
                    self.exact = True
                    return

    def spend(self) -> None:
        self.spent += 1
        if self.spent > BUDGET:
            raise _OutOfBudgetError

    def rank_tuples(self) -> Iterator[tuple[int, ...]]:
        """Ranks within the limits that all rows of `meet` accept, few axes first."""
        limits = self.limits
        if limits is None:
            return
        groups = limits.groups
        ranges = [
            range(group.least, group.least + 1 if group.is_fixed else group.most + 1 + self.slack)
            for group in groups
        ]
        ranks = [0] * self.arity
        # Least ranks give the simplest examples, so those come first.
        choices: Iterator[tuple[int, ...]] = itertools.product(*ranges)
        if math.prod(map(len, ranges)) <= BUDGET:
            choices = iter(sorted(choices, key=sum))
        for chosen in choices:
            self.spend()
            for base, group in zip(chosen, groups, strict=True):
                for operand, offset in zip(group.operands, group.offsets, strict=True):
                    ranks[operand] = base + offset
            if all(_ranks_fit(row, ranks) for row in self.meet):
                yield tuple(ranks)

    def add(self, shapes: tuple[Shape, ...]) -> None:
        inside = 0
        for bit, row in enumerate(self.tests):
            if match_shapes(row, shapes) is not None:
                inside |= 1 << bit
        if any(r.inside & inside == r.inside and r.certain for r in self.found):
            return
        if not self.symbolic:
            self.keep(Region(inside, self.small(shapes)))
            return
        best: Region | None = None
        for concrete in _concrete(shapes, self.meet, self.spend):
            now = 0
            for bit, row in enumerate(self.tests):
                if match_shapes(row, concrete) is not None:
                    now |= 1 << bit
            if best is None or now & best.inside == now:
                best = Region(now, concrete)
            if now & inside == now:
                break
        if best is not None:
            self.keep(best)
        if best is None or best.inside & inside != best.inside:
            self.keep(Region(inside, _guessed(shapes), certain=False))

    def keep(self, region: Region) -> None:
        if region.certain:
            self.found = [r for r in self.found if r.inside & region.inside != region.inside]
        self.found.append(region)

    def small(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The instance with small sizes, all different and none of them in any row."""
        taken = {
            axis.size
            for row in (*self.meet, *self.tests)
            for dims in row
            for _, axis in dims.positions
            if isinstance(axis.size, int)
        }
        fresh = (size for size in itertools.count(2) if size not in taken)
        new: dict[int, int] = {}
        return tuple(
            tuple(
                (new[s] if s in new else new.setdefault(s, next(fresh))) if s >= _FRESH else s
                for s in shape
            )
            for shape in shapes
        )


def _guessed(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Small sizes in place of what could not be solved: an example for a text, not a proof."""
    return tuple(tuple(s if isinstance(s, int) else 2 for s in shape) for shape in shapes)


def _ranks_fit(row: Row, ranks: Sequence[int]) -> bool:
    lengths: dict[str, int] = {}
    for dims, rank in zip(row, ranks, strict=True):
        if not dims.fits_rank(rank):
            return False
        section = dims.section
        if section is not None and section.name is not None and not section.broadcast:
            length = rank - dims.fixed
            if lengths.setdefault(section.name, length) != length:
                return False
    for dims, rank in zip(row, ranks, strict=True):
        section = dims.section
        if section is not None and section.broadcast:
            target = lengths.get(section.name or "")
            if target is not None and rank - dims.fixed > target:
                return False
    return True


# --- instances ------------------------------------------------------------------------------


class _Classes:
    """Axes and names in classes of equal size, each with its number if it has one."""

    __slots__ = ("number", "parent")

    def __init__(self, parent: list[int], number: dict[int, int]) -> None:
        self.parent, self.number = parent, number

    def copy(self) -> _Classes:
        return _Classes(self.parent.copy(), self.number.copy())

    def find(self, node: int) -> int:
        parent = self.parent
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    def join(self, a: int, b: int) -> bool:
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        if a in self.number and b in self.number and self.number[a] != self.number[b]:
            return False
        if a in self.number:
            a, b = b, a
        self.parent[a] = b
        return True

    def fix(self, node: int, size: int) -> bool:
        return self.number.setdefault(self.find(node), size) == size

    def value(self, node: int) -> int | None:
        return self.number.get(self.find(node))


@dataclass(frozen=True, slots=True)
class _Split:
    """A `#` axis: it is 1, or what it is written as.

    Attributes:
        axis: its class.
        row: of the meet.
        target: the class of its name; or a number or an expression.
        column: (which of the columns, index) if it is in a stretch of columns that are alike.
        stretch: a number for that stretch.
    """

    axis: int
    row: int
    target: int
    size: int | Polynomial | None = None
    column: tuple[int, int] | None = None
    stretch: int = 0


_Equation: TypeAlias = tuple[int, int, Polynomial]
"""A class, a row of meet, and the expression of that row's names that gives the size."""

_Instance: TypeAlias = tuple[tuple[Shape, ...], bool]
"""Shapes, and whether an equation was left unsolved."""


def _instances(
    meet: Sequence[Row],
    ranks: Sequence[int],
    columns: Sequence[Columns],
    symbolic: bool,
    spend: Callable[[], None],
) -> Iterator[_Instance]:
    """Canonical instances of all rows at these ranks."""
    problem = _Problem(meet, ranks, columns)
    if problem.possible:
        yield from problem.instances(symbolic, spend)


class _Problem:
    """All that rows say of shapes of given ranks."""

    def __init__(
        self, meet: Sequence[Row], ranks: Sequence[int], columns: Sequence[Columns]
    ) -> None:
        self.starts = [0, *itertools.accumulate(ranks)]
        self.classes = _Classes(list(range(self.starts[-1])), {})
        self.names: list[dict[str, int]] = [{} for _ in meet]
        self.equations: list[_Equation] = []
        self.splits: list[_Split] = []
        places: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
        for group, some in enumerate(columns):
            alike = some.alike(ranks)
            for operand, shift in zip(some.operands, some.shifts, strict=True):
                for index in range(ranks[operand]):
                    if index - shift in alike:
                        column = index - shift
                        places[operand, index] = ((group, column), alike[column])
        self.places = places
        self.possible = all(
            self.add(r, operand, dims)
            for r, row in enumerate(meet)
            for operand, dims in enumerate(row)
        )
        joined = {self.classes.find(axis) for axis in range(self.starts[-1])}
        self.loose = {
            s.target
            for s in self.splits
            if s.size is None and self.classes.find(s.target) not in joined
        }
        # Columns that are alike one after the other, so that their order can be compared.
        self.splits.sort(key=lambda s: (s.column is not None, s.column or (0, 0), s.row, s.axis))

    def name(self, row: int, name: str) -> int:
        """The class of a row's name."""
        names = self.names[row]
        if name not in names:
            names[name] = len(self.classes.parent)
            self.classes.parent.append(names[name])
        return names[name]

    def add(self, r: int, operand: int, dims: Dims) -> bool:
        """What the row says of one operand; False if that is impossible."""
        start, end = self.starts[operand], self.starts[operand + 1]
        for position, axis in dims.positions:
            here, size = (start if position >= 0 else end) + position, axis.size
            if size is None:
                continue
            for name in names_of(size):
                self.name(r, name)
            if axis.broadcast:
                if isinstance(size, str):
                    self.splits.append(_Split(here, r, self.name(r, size)))
                else:
                    self.splits.append(_Split(here, r, -1, size))
            elif isinstance(size, str):
                if not self.classes.join(here, self.name(r, size)):
                    return False
            elif isinstance(size, int):
                if not self.classes.fix(here, size):
                    return False
            else:
                self.equations.append((here, r, size))
        section = dims.section
        if section is not None and section.name is not None:
            last = end - len(dims.right)
            for here in range(start + len(dims.left), last):
                there = self.name(r, f"*{section.name} {last - here}")
                if section.broadcast:
                    place = self.places.get((operand, end - 1 - here), (None, 0))
                    self.splits.append(_Split(here, r, there, None, *place))
                elif not self.classes.join(here, there):
                    return False
        return True

    def is_last_and_only(self, at: int, classes: _Classes) -> bool:
        """Whether no other axis has, or may yet have, the size of this split's name."""
        target = self.splits[at].target
        return not any(
            split.target == target
            and (other > at or classes.find(split.axis) == classes.find(target))
            for other, split in enumerate(self.splits)
            if other != at
        )

    def instances(self, symbolic: bool, spend: Callable[[], None]) -> Iterator[_Instance]:
        """Every way to decide the splits, without repeating an order of like columns."""
        splits = self.splits

        def decide(
            at: int,
            classes: _Classes,
            equations: list[_Equation],
            before: tuple[int, ...] | None,
            now: tuple[int, ...],
        ) -> Iterator[_Instance]:
            # `now` says for each split of this column, so far, whether it is 1; `before` the same
            # of the like column on its right, None if there is none. Columns come in falling order.
            while at < len(splits):
                split = splits[at]
                if at and split.column is not None and split.column != splits[at - 1].column:
                    right = splits[at - 1]
                    follows = right.column is not None and (
                        (split.column[0], split.stretch) == (right.column[0], right.stretch)
                    )
                    before, now = (now if follows else None), ()
                at += 1
                if classes.value(split.axis) == 1:
                    now = (*now, 1)
                elif split.size is None and classes.find(split.axis) == classes.find(split.target):
                    now = (*now, 0)
                else:
                    spend()
                    # The last use of a name that no other axis has says nothing: 1 is no case.
                    if not (
                        split.size is None
                        and split.target in self.loose
                        and self.is_last_and_only(at - 1, classes)
                    ):
                        one = classes.copy()
                        if _in_order((*now, 1), before) and one.fix(split.axis, 1):
                            yield from decide(at, one, equations, before, (*now, 1))
                    now = (*now, 0)
                    if split.size is None:
                        possible = classes.join(split.axis, split.target)
                    elif isinstance(split.size, int):
                        possible = classes.fix(split.axis, split.size)
                    else:
                        equations = [*equations, (split.axis, split.row, split.size)]
                        possible = True
                    if not possible:
                        return
                if not _in_order(now, before):
                    return
            if symbolic:
                yield from _solved(self.starts, classes, equations, self.names)
            else:
                yield _generic(self.starts, classes), False

        yield from decide(0, self.classes, self.equations, None, ())


def _in_order(now: tuple[int, ...], before: tuple[int, ...] | None) -> bool:
    return before is None or now <= before[: len(now)]


def one_instance(meet: Sequence[Row], ranks: Sequence[int]) -> tuple[Shape, ...] | None:
    """A most general instance at these ranks, with a variable for each free size; None if none."""
    instances = [
        s for s, unsolved in _instances(meet, ranks, (), True, lambda: None) if not unsolved
    ]
    return instances[-1] if instances else None


def _generic(starts: Sequence[int], classes: _Classes) -> tuple[Shape, ...]:
    sizes = [
        classes.number.get(root, _FRESH + root) for root in map(classes.find, range(starts[-1]))
    ]
    return tuple(tuple(sizes[a:b]) for a, b in itertools.pairwise(starts))


# --- equations ------------------------------------------------------------------------------


def _solved(
    starts: Sequence[int],
    classes: _Classes,
    equations: Sequence[_Equation],
    names: Sequence[dict[str, int]],
) -> Iterator[tuple[tuple[Shape, ...], bool]]:
    """The instances in which all equations hold, as polynomials of what stays free."""

    def value(number: int) -> Size:
        root = classes.find(number)
        fixed = classes.number.get(root)
        return Polynomial.variable(f"${root}") if fixed is None else fixed

    try:
        zeros = [
            expression.evaluate({name: value(n) for name, n in names[r].items()}) - value(here)
            for here, r, expression in equations
        ]
    except ZeroDivisionError:
        return
    sizes = [value(here) for here in range(starts[-1])]
    bound = [value(n) for by_name in names for n in by_name.values()]
    for solution, unsolved in solve([z for z in zeros if not is_zero(z)], ()):
        try:
            now, others = sizes, bound
            for name, replacement in solution:
                now = [substitute(size, name, replacement) for size in now]
                others = [substitute(size, name, replacement) for size in others]
        except ZeroDivisionError:
            continue
        if not any(is_negative(size) for size in (*now, *others)):
            yield tuple(tuple(now[a:b]) for a, b in itertools.pairwise(starts)), unsolved


def _concrete(
    shapes: tuple[Shape, ...], meet: Sequence[Row], spend: Callable[[], None]
) -> Iterator[tuple[Shape, ...]]:
    """The instance with numbers for what is free: different ones first, then all small ones."""
    free = sorted({n for shape in shapes for size in shape for n in names_of(size)})
    distinct = [range(k, k + len(free)) for k in (2, 3, 5, 11, 41)]
    spread = [[k * (i + 2) + i for i in range(len(free))] for k in (3, 7, 12)]
    small = itertools.islice(itertools.product(range(9), repeat=len(free)), 2000)
    for sizes in itertools.chain(distinct, spread, (s[::-1] for s in distinct), small):
        spend()
        values = dict(zip(free, sizes, strict=True))
        try:
            concrete = tuple(tuple(evaluate(s, values) for s in shape) for shape in shapes)
        except ZeroDivisionError:
            continue
        if all(size >= 0 for shape in concrete for size in shape) and all(
            match_shapes(row, concrete) is not None for row in meet
        ):
            yield concrete
