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

**Which ranks are enough** (`_rank_limits`). Write p and s for the most axes left and right of a
section that any row has at one operand, c for the axes besides the section.

* *An operand whose sections have no name in common with another operand's.* In a shape of rank
  above p + s some axis lies inside the section of every row. It is tied to nothing; without it the
  shape fits exactly the same rows, provided the rank stays above that of every row without a
  section. So ranks up to max(p + s, 1 + c of the rows without section) are enough.

* *Operands that share section names; no `#*`; not tied by `meet`.* From rank p + s + 1 on, such an
  operand has an axis inside every section whose size is found nowhere else. A test that shares that
  section with another operand fails there, whatever the rank, and the other tests see no change.

* *Operands tied by `meet`* (a plain `*b` of `meet` in each). Their ranks differ by constants, so
  one number t, the smallest of the ranks, says them all. Count axes from the right. Each use of a
  name in two operands links x_i[a] with x_j[a + o], o the difference of the suffixes, for all a in
  the section. A spanning tree of links shifts every operand into one common word y; every other
  link says y[a] = y[a + q]. Where all links apply (all but p + s + 2 * (spread of the shifts)
  axes), Fine and Wilf's theorem makes y periodic with g = gcd of the q as soon as it has 2 * max q
  axes, and says nothing else. The axes outside are a fixed number at both ends. So the instance for
  t + g is that for t with one more period in the middle, and a test, which itself links y[a] with
  y[a + q'], holds for one if it does for the other once the middle is longer than q'. Hence t up to
  p + s + 2 * spread + 2 * max q + max q' + 1 + g is enough. Several tied groups that tests compare
  with each other need room for their ranks to differ by more than any c, in steps of g.

* *With `#*b` shared between operands* an instance also says of each axis whether it is 1. If all
  links of `meet` agree (every q is 0), equal axes form columns, counted from the right, and a test
  that fails does so in one column (or window of q' columns), in the rank condition, or at the fixed
  axes. Sort the operands by rank: between two left ends, all columns but p + 1 + (the largest
  difference of two c) and one window for each test may go. That bounds each such stretch, and there
  are as many as operands. If the links of `meet` do *not* agree, no bound is proved: what is found
  is right, what is not found is "maybe".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from typedqax._dims import ANYTHING, Axis, Dims, Section, Shape, match_shapes
from typedqax._polynomial import Monomial, Polynomial, Size, evaluate, names_of, substitute

Row: TypeAlias = tuple[Dims, ...]

RANK_SLACK = 0
"""Added to every rank limit. Tests raise it, to see that nothing changes, and lower it, to see that
something does."""

BUDGET = 60_000
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
    return _regions(
        tuple(canonical(row) for row in meet), tuple(canonical(row) for row in tests), RANK_SLACK
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
        self.limits = _rank_limits(meet, tests)
        self.slack = slack

    def run(self) -> None:
        if self.limits is None:
            return
        self.exact = self.limits.proved
        for ranks in self.rank_tuples():
            for shapes, unsolved in _instances(self.meet, ranks, self.symbolic, self.spend):
                self.spend()
                self.add(shapes, unsolved)
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

    def add(self, shapes: tuple[Shape, ...], unsolved: bool) -> None:
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
        for concrete in _concrete(shapes, self.meet):
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
            guess = tuple(tuple(evaluate(s, _Two()) for s in shape) for shape in shapes)
            self.keep(Region(inside, guess, certain=False))

    def keep(self, region: Region) -> None:
        if region.certain:
            self.found = [
                r for r in self.found if not (r.inside & region.inside == region.inside)
            ]
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


class _Two(dict[str, int]):
    def __missing__(self, name: str) -> int:
        return 2


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
        if section is not None and section.broadcast and section.name in lengths:
            if rank - dims.fixed > lengths[section.name]:
                return False
    return True


# --- ranks ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """Operands whose ranks `meet` ties together: `least + offset` each, or more by one number."""

    operands: tuple[int, ...]
    offsets: tuple[int, ...]
    least: int
    most: int
    is_fixed: bool


@dataclass(frozen=True, slots=True)
class _Limits:
    groups: tuple[_Group, ...]
    proved: bool


@dataclass(frozen=True, slots=True)
class _Link:
    """A section name used at two operands of one row."""

    first: int
    second: int
    suffixes: int  # how much longer the suffix is at the second
    fixed: int  # how many more axes besides the section there are at the second
    plain: bool  # at both
    of_meet: bool


def _links(rows: Sequence[Row], *, of_meet: bool) -> Iterator[_Link]:
    for row in rows:
        uses: dict[str, list[int]] = {}
        for operand, dims in enumerate(row):
            if dims.section is not None and dims.section.name is not None:
                uses.setdefault(dims.section.name, []).append(operand)
        for operands in uses.values():
            # Plain uses first, so that they are linked with each other.
            operands.sort(key=lambda i: row[i].section.broadcast)  # type: ignore[union-attr]  # it has one
            first = operands[0]
            for second in operands[1:]:
                a, b = row[first], row[second]
                yield _Link(
                    first,
                    second,
                    len(b.right) - len(a.right),
                    b.fixed - a.fixed,
                    not any(d.section is not None and d.section.broadcast for d in (a, b)),
                    of_meet,
                )


def _rank_limits(meet: tuple[Row, ...], tests: tuple[Row, ...]) -> _Limits | None:
    """How far ranks must be looked at (the module's docstring says why); None: no ranks fit."""
    arity = len(meet[0])
    left, right, without = [0] * arity, [0] * arity, [-1] * arity
    rank: list[int | None] = [None] * arity
    least = [0] * arity
    for row in (*meet, *tests):
        for i, dims in enumerate(row):
            if dims.section is None:
                without[i] = max(without[i], dims.fixed)
            else:
                left[i] = max(left[i], len(dims.left))
                right[i] = max(right[i], len(dims.right))
    for row in meet:
        for i, dims in enumerate(row):
            if dims.section is None:
                if rank[i] not in (None, dims.fixed):
                    return None
                rank[i] = dims.fixed
            least[i] = max(least[i], dims.fixed)
    links = [*_links(meet, of_meet=True), *_links(tests, of_meet=False)]
    tied = _potentials(arity, [k for k in links if k.of_meet and k.plain], lambda k: k.fixed)
    component, offset, mismatches = tied
    if any(mismatches):
        return None  # two rows want different differences of rank
    found: list[_Group] = []
    proved = True
    shared = _shared(arity, links, left, right, without, tests)
    for root in sorted(set(component)):
        operands = tuple(i for i in range(arity) if component[i] == root)
        low = min(offset[i] for i in operands)
        offsets = tuple(offset[i] - low for i in operands)
        start = max(
            rank_least - o for rank_least, o in zip([least[i] for i in operands], offsets, strict=True)
        )
        start = max(start, 0)
        fixed = {r - o for i, o in zip(operands, offsets, strict=True) if (r := rank[i]) is not None}
        if len(fixed) > 1 or (fixed and min(fixed) < start):
            return None
        if fixed:
            base = fixed.pop()
            found.append(_Group(operands, offsets, base, base, is_fixed=True))
            continue
        most = 0
        for i in operands:
            limit, sure = shared[i]
            most, proved = max(most, limit), proved and sure
        found.append(_Group(operands, offsets, start, max(most, start), is_fixed=False))
    return _Limits(tuple(found), proved)


def _potentials(
    arity: int, links: Sequence[_Link], weight: Callable[[_Link], int]
) -> tuple[list[int], list[int], list[int]]:
    """Component and potential of each operand along the links, and how far the rest disagree."""
    component, offset = list(range(arity)), [0] * arity
    mismatches: list[int] = []
    for link in links:
        step = weight(link)
        a, b = component[link.first], component[link.second]
        if a == b:
            mismatches.append(abs(offset[link.second] - offset[link.first] - step))
            continue
        shift = offset[link.first] + step - offset[link.second]
        for i in range(arity):
            if component[i] == b:
                component[i], offset[i] = a, offset[i] + shift
    return component, offset, mismatches


def _shared(
    arity: int,
    links: Sequence[_Link],
    left: Sequence[int],
    right: Sequence[int],
    without: Sequence[int],
    tests: Sequence[Row],
) -> list[tuple[int, bool]]:
    """For each operand how long its rank must be let grow, and whether that is proved."""
    limits = [(max(left[i] + right[i], without[i] + 1), True) for i in range(arity)]
    # Links of meet come first, so that the tree follows them and tests only add mismatches.
    component, shifts, _ = _potentials(arity, links, lambda k: k.suffixes)
    for root in set(component):
        operands = [i for i in range(arity) if component[i] == root]
        if len(operands) == 1:
            continue
        inside = [k for k in links if component[k.first] == root]
        of_meet = [k for k in inside if k.of_meet]
        p, s = max(left[i] for i in operands), max(right[i] for i in operands)
        no_section = 1 + max(without[i] for i in operands)
        spread = max(shifts[i] for i in operands) - min(shifts[i] for i in operands)
        q_meet = [abs(shifts[k.second] - shifts[k.first] - k.suffixes) for k in of_meet]
        q_test = [
            abs(shifts[k.second] - shifts[k.first] - k.suffixes) for k in inside if not k.of_meet
        ]
        q, window = max(q_meet, default=0), 1 + max(q_test, default=0)
        period = math.gcd(*q_meet)
        ranks_differ = max(abs(k.fixed) for k in inside)
        if all(k.plain for k in inside):
            limit = p + s + 2 * spread + 2 * q + window + max(period, 1)
            tied = {k.first for k in of_meet}
            if len(tied) > 1:
                limit += len(tied) * (ranks_differ + 1) * max(period, 1)
            for i in operands:
                alone = all(i not in (k.first, k.second) for k in of_meet)
                own = left[i] + right[i] + 1 if alone and not q else limit
                limits[i] = (max(own, no_section), True)
        else:
            names = {
                row
                for row in tests
                if any(d.section is not None and d.section.name is not None for d in row)
            }
            kinds = len(names)
            if window == 1 and not q:
                kinds = min(kinds, 2 ** len(operands) - 1)
            stretch = p + ranks_differ + 1 + kinds * window
            limit = s + spread + len(operands) * stretch + 2 * q
            for i in operands:
                limits[i] = (max(limit, no_section), q == 0)
    return limits


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


# What a `#` axis may be besides 1: a class, a number, or an expression with its row's names.
_Target: TypeAlias = tuple[int, Size | None]


def _instances(
    meet: Sequence[Row], ranks: Sequence[int], symbolic: bool, spend: Callable[[], None]
) -> Iterator[tuple[tuple[Shape, ...], bool]]:
    """Canonical instances of all rows at these ranks, and whether an equation was left unsolved."""
    starts = [0, *itertools.accumulate(ranks)]
    classes = _Classes(list(range(starts[-1])), {})
    names: dict[tuple[int, str, int], int] = {}

    def node(row: int, name: str, index: int = 0) -> int:
        key = (row, name, index)
        if key not in names:
            names[key] = len(classes.parent)
            classes.parent.append(names[key])
        return names[key]

    equations: list[tuple[int, int, Polynomial]] = []
    splits: list[tuple[int, int, int | None, int | Polynomial]] = []  # axis, row, class or size
    for r, row in enumerate(meet):
        for operand, dims in enumerate(row):
            start, end = starts[operand], starts[operand + 1]
            for position, axis in dims.positions:
                here = (start if position >= 0 else end) + position
                size = axis.size
                if size is None:
                    continue
                if axis.broadcast:
                    if isinstance(size, str):
                        splits.append((here, r, node(r, size), 0))
                    else:
                        splits.append((here, r, None, size))
                elif isinstance(size, str):
                    if not classes.join(here, node(r, size)):
                        return
                elif isinstance(size, int):
                    if not classes.fix(here, size):
                        return
                else:
                    equations.append((here, r, size))
            section = dims.section
            if section is not None and section.name is not None:
                first, last = start + len(dims.left), end - len(dims.right)
                for here in range(first, last):
                    there = node(r, "*" + section.name, last - here)
                    if section.broadcast:
                        splits.append((here, r, there, 0))
                    elif not classes.join(here, there):
                        return
    for r, name in {(r, n) for _, r, e in equations for n in names_of(e)} | {
        (r, n) for _, r, c, e in splits if c is None for n in names_of(e)
    }:
        node(r, name)

    by_row: dict[int, dict[str, int]] = {}
    for (r, name, index), number in names.items():
        if index == 0:
            by_row.setdefault(r, {})[name] = number

    def leaves(
        at: int, classes: _Classes, equations: list[tuple[int, int, Polynomial]]
    ) -> Iterator[tuple[tuple[Shape, ...], bool]]:
        while at < len(splits):
            here, r, there, size = splits[at]
            at += 1
            if classes.value(here) == 1:
                continue
            if there is not None and classes.find(here) == classes.find(there):
                continue
            spend()
            one = classes.copy()
            if one.fix(here, 1):
                yield from leaves(at, one, equations)
            if there is not None:
                if not classes.join(here, there):
                    return
            elif isinstance(size, int):
                if not classes.fix(here, size):
                    return
            else:
                equations = [*equations, (here, r, size)]
        if symbolic:
            yield from _solved(starts, classes, equations, by_row)
        else:
            yield _generic(starts, classes), False

    yield from leaves(0, classes, equations)


def one_instance(meet: Sequence[Row], ranks: Sequence[int]) -> tuple[Shape, ...] | None:
    """A most general instance at these ranks, with a variable for each free size; None if none."""
    instances = [s for s, unsolved in _instances(meet, ranks, True, lambda: None) if not unsolved]
    return instances[-1] if instances else None


def _generic(starts: Sequence[int], classes: _Classes) -> tuple[Shape, ...]:
    sizes = [
        classes.number.get(root, _FRESH + root)
        for root in map(classes.find, range(starts[-1]))
    ]
    return tuple(tuple(sizes[a:b]) for a, b in itertools.pairwise(starts))


# --- equations ------------------------------------------------------------------------------


def _solved(
    starts: Sequence[int],
    classes: _Classes,
    equations: Sequence[tuple[int, int, Polynomial]],
    names: dict[int, dict[str, int]],
) -> Iterator[tuple[tuple[Shape, ...], bool]]:
    """The instances in which all equations hold, as polynomials of what stays free."""

    def value(number: int) -> Size:
        root = classes.find(number)
        fixed = classes.number.get(root)
        return Polynomial.variable(f"${root}") if fixed is None else fixed

    try:
        zeros = [
            expression.evaluate({name: value(n) for name, n in names.get(r, {}).items()})
            - value(here)
            for here, r, expression in equations
        ]
    except ZeroDivisionError:
        return
    sizes = [value(here) for here in range(starts[-1])]
    bound = [value(n) for by_name in names.values() for n in by_name.values()]
    for solution, unsolved in _solve([z for z in zeros if not _is_zero(z)], ()):
        try:
            now, others = sizes, bound
            for name, replacement in solution:
                now = [substitute(size, name, replacement) for size in now]
                others = [substitute(size, name, replacement) for size in others]
        except ZeroDivisionError:
            continue
        if not any(_is_negative(size) for size in (*now, *others)):
            yield tuple(tuple(now[a:b]) for a, b in itertools.pairwise(starts)), unsolved


_Solution: TypeAlias = tuple[tuple[str, Size], ...]


def _is_zero(value: Size) -> bool:
    return isinstance(value, int) and value == 0


def _is_negative(value: Size) -> bool:
    """Whether no sizes make it 0 or more."""
    if isinstance(value, int):
        return value < 0
    if value.is_opaque():
        return False
    constant = 0
    for monomial, coefficient in value.terms:
        if coefficient > 0:
            return False
        if monomial == ():
            constant = coefficient
    return constant < 0


def _solve(zeros: list[Size], done: _Solution) -> Iterator[tuple[_Solution, bool]]:
    """Substitutions, in order, that make all `zeros` 0, and whether an equation is left over."""
    pending = [z for z in zeros if not _is_zero(z)]
    if any(isinstance(z, int) for z in pending) or any(map(_has_no_root, pending)):
        return
    if not pending:
        yield done, False
        return
    for zero in pending:
        steps = _eliminate(zero)
        if steps is None:
            continue
        for name, replacement, others in steps:
            try:
                rest = [substitute(z, name, replacement) for z in pending if z is not zero]
            except ZeroDivisionError:
                continue
            yield from _solve([*rest, *others], (*done, (name, replacement)))
        return
    yield done, True


def _has_no_root(zero: Polynomial) -> bool:
    """Whether its coefficients alone show that it is never 0."""
    if zero.is_opaque():
        return False
    constant = sum(c for monomial, c in zero.terms if monomial == ())
    others = [c for monomial, c in zero.terms if monomial != ()]
    if constant % math.gcd(*others):
        return True
    signs = {c > 0 for c in others}
    return len(signs) == 1 and constant != 0 and (constant > 0) in signs


def _eliminate(zero: Polynomial) -> list[tuple[str, Size, list[Size]]] | None:
    """(name, what it must be, further equations) for each case; None if it cannot be solved."""
    for monomial, coefficient in zero.terms:
        if len(monomial) == 1 and abs(coefficient) == 1:
            atom, power = monomial[0]
            if isinstance(atom, str) and power == 1:
                rest = zero + Polynomial(((monomial, -coefficient),))
                if atom not in names_of(rest):
                    return [(atom, rest * -coefficient, [])]
    if zero.is_opaque():
        return None
    constant = sum(c for monomial, c in zero.terms if monomial == ())
    names = sorted(zero.names())
    if len(names) == 1:
        (name,) = names
        limit = 1 + max(abs(c) for _, c in zero.terms)  # Cauchy's bound on the roots
        if limit > BUDGET:
            return None
        return [
            (name, root, []) for root in range(limit + 1) if _is_zero(zero.evaluate({name: root}))
        ]
    if constant == 0:
        for name in names:
            if all(any(atom == name for atom, _ in monomial) for monomial, _ in zero.terms):
                # A common factor: it is 0, or the rest is.
                quotient = _divided(zero, name)
                renamed = Polynomial.variable(name)
                if isinstance(quotient, int):
                    return [(name, 0, [])]
                return [(name, 0, []), (name, renamed, [quotient])]
    if len({c > 0 for _, c in zero.terms}) == 1:
        # A sum of terms of one sign that is 0: each is (a constant was excluded before).
        name = sorted(atom for atom, _ in zero.terms[0][0] if isinstance(atom, str))[0]
        factor = zero.terms[0][0]
        if len(factor) == 1:
            return [(name, 0, [zero.evaluate(_zero_at(zero, name))])]
    return None


def _zero_at(zero: Polynomial, name: str) -> dict[str, Size]:
    sizes: dict[str, Size] = {n: Polynomial.variable(n) for n in zero.names()}
    sizes[name] = 0
    return sizes


def _divided(zero: Polynomial, name: str) -> Size:
    total: Size = 0
    for monomial, coefficient in zero.terms:
        product: Size = coefficient
        lowered: Monomial = tuple(
            (atom, power - (atom == name)) for atom, power in monomial if power > (atom == name)
        )
        if lowered:
            product = Polynomial(((lowered, coefficient),))
        total = product + total
    return total


def _concrete(shapes: tuple[Shape, ...], meet: Sequence[Row]) -> Iterator[tuple[Shape, ...]]:
    """The instance with numbers for what is free: different ones first, then all small ones."""
    free = sorted({n for shape in shapes for size in shape for n in names_of(size)})
    distinct = [range(k, k + len(free)) for k in (2, 3, 5, 11, 41)]
    spread = [[k * (i + 2) + i for i in range(len(free))] for k in (3, 7, 12)]
    small = itertools.islice(itertools.product(range(9), repeat=len(free)), 2000)
    for sizes in itertools.chain(distinct, spread, (s[::-1] for s in distinct), small):
        values = dict(zip(free, sizes, strict=True))
        try:
            concrete = tuple(tuple(evaluate(s, values) for s in shape) for shape in shapes)
        except ZeroDivisionError:
            continue
        if all(size >= 0 for shape in concrete for size in shape) and all(
            match_shapes(row, concrete) is not None for row in meet
        ):
            yield concrete
