"""RankLimits: how long shapes must be looked at to know all that rows of dims can do.

A *row* is one `Dims` for each operand. `meet` are the rows that shapes must fit, `tests` those that
they should avoid. Write p and s for the most axes left and right of a section that any row has at
one operand, c for the axes besides the section. Longer shapes than these limits fit the same rows
as some shorter ones do:

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
  p + s + 2 * spread + 2 * max q + max q' + 1, or the least rank above that of
  every row without a section, plus g, is enough. Several tied groups that tests compare
  with each other need room for their ranks to differ by more than any c, in steps of g.

* *With `#*b` shared between operands* an instance also says of each axis whether it is 1. If all
  links of `meet` agree (every q is 0), linked axes form columns, counted from the right, and a test
  that fails does so in one column (or window of q' + 1 columns), in its rank condition, or at the
  axes that it singles out. Sort the operands by rank: in the stretch between two left ends, all
  columns may go but p, one more than the largest difference of two c (so that no rank condition
  changes), and a window for each test; and no rank falls to that of a row without a section. Where
  q' is 0 too, columns of one stretch may be exchanged, and of those with the same axes equal to 1
  one is enough. (The two tests `#*b, *b` and `*b, #*b` cover all of `#*b, #*b` up to rank 1, and
  not (1, 5), (5, 1): so the number of tests does matter.) If the links of `meet` do *not* agree, no
  bound is proved: what is found is right, what is not found is "maybe".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from typedqax._dims import Dims

Row: TypeAlias = tuple[Dims, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Operands whose ranks `meet` ties together.

    Attributes:
        operands: their indexes.
        offsets: their ranks are one number plus these, of which the least is 0.
        least: the least that number can be.
        most: the most that it need be.
        is_fixed: `least` is all that it can be.
    """

    operands: tuple[int, ...]
    offsets: tuple[int, ...]
    least: int
    most: int
    is_fixed: bool


@dataclass(frozen=True, slots=True)
class Columns:
    """Operands whose axes, counted from the right, form columns that rows treat alike.

    Attributes:
        operands: their indexes.
        shifts: how far each is moved, so that linked axes stand in one column.
        left: axes at each operand's left end that some row singles out.
        right: axes at each operand's right end that some row singles out.
        whole: ranks of each operand at which some row singles out all axes.
    """

    operands: tuple[int, ...]
    shifts: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    whole: tuple[frozenset[int], ...]

    def alike(self, ranks: Sequence[int]) -> dict[int, int]:
        """For each column that is like the one on its right, a number for their common stretch."""
        kinds: dict[int, frozenset[int] | None] = {}
        for i, operand in enumerate(self.operands):
            rank, shift = ranks[operand], self.shifts[i]
            for index in range(rank):
                column = index - shift
                inside = self.right[i] <= index < rank - self.left[i]
                before = kinds.get(column, frozenset())
                if not inside or rank in self.whole[i] or before is None:
                    kinds[column] = None
                else:
                    kinds[column] = before | {operand}
        stretch, found = 0, {}
        for column in sorted(kinds):
            if kinds[column] is None:
                continue
            if kinds.get(column - 1) != kinds[column]:
                stretch += 1
            found[column] = stretch
        return found


@dataclass(frozen=True, slots=True)
class RankLimits:
    """What must be looked at.

    Attributes:
        groups: every operand is in one of them.
        columns: where columns of axes may be exchanged.
        proved: whether nothing can be missed.
    """

    groups: tuple[Group, ...]
    columns: tuple[Columns, ...]
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


@dataclass(frozen=True, slots=True)
class _Ends:
    """What some row says of an operand: the most axes left and right, ranks without a section."""

    left: int
    right: int
    ranks: frozenset[int]

    @property
    def beyond(self) -> int:
        """The least rank above that of every row without a section."""
        return 1 + max(self.ranks, default=-1)


def rank_limits(meet: tuple[Row, ...], tests: tuple[Row, ...]) -> RankLimits | None:
    """How far ranks must be looked at (the module's docstring says why); None: no ranks fit."""
    arity = len(meet[0])
    ends = [_ends([row[i] for row in (*meet, *tests)]) for i in range(arity)]
    least = [max(row[i].fixed for row in meet) for i in range(arity)]
    fixed = [{row[i].fixed for row in meet if row[i].section is None} for i in range(arity)]
    links = [*_links(meet, of_meet=True), *_links(tests, of_meet=False)]
    component, offset, mismatches = _potentials(
        arity, [k for k in links if k.of_meet and k.plain], lambda k: k.fixed
    )
    if any(mismatches) or any(len(ranks) > 1 for ranks in fixed):
        return None
    limits, columns = _limits(ends, fixed, links, tests)
    groups: list[Group] = []
    proved = True
    for root in sorted(set(component)):
        operands = tuple(i for i in range(arity) if component[i] == root)
        low = min(offset[i] for i in operands)
        offsets = tuple(offset[i] - low for i in operands)
        start = max(0, *(least[i] + low - offset[i] for i in operands))
        known = {rank + low - offset[i] for i in operands for rank in fixed[i]}
        if len(known) > 1 or (known and min(known) < start):
            return None
        if known:
            start = most = known.pop()
        else:
            most = max(start, *(limits[i][0] for i in operands))
            proved = proved and all(limits[i][1] for i in operands)
        is_fixed = any(fixed[i] for i in operands)
        groups.append(Group(operands, offsets, start, most, is_fixed))
    return RankLimits(tuple(groups), columns, proved)


def _ends(all_dims: Sequence[Dims]) -> _Ends:
    with_section = [d for d in all_dims if d.section is not None]
    return _Ends(
        max((len(d.left) for d in with_section), default=0),
        max((len(d.right) for d in with_section), default=0),
        frozenset(d.fixed for d in all_dims if d.section is None),
    )


def _links(rows: Sequence[Row], *, of_meet: bool) -> Iterator[_Link]:
    for row in rows:
        uses: dict[str, list[tuple[bool, int]]] = {}
        for operand, dims in enumerate(row):
            if dims.section is not None and dims.section.name is not None:
                uses.setdefault(dims.section.name, []).append((dims.section.broadcast, operand))
        for same in uses.values():
            # Plain uses first, so that they are linked with each other.
            (first_broadcast, first), *others = sorted(same)
            for broadcast, second in others:
                a, b = row[first], row[second]
                yield _Link(
                    first,
                    second,
                    len(b.right) - len(a.right),
                    b.fixed - a.fixed,
                    not (first_broadcast or broadcast),
                    of_meet,
                )


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


def _limits(
    ends: Sequence[_Ends],
    fixed: Sequence[set[int]],
    links: Sequence[_Link],
    tests: Sequence[Row],
) -> tuple[list[tuple[int, bool]], tuple[Columns, ...]]:
    """For each operand how long it must be let grow and whether that is proved; and columns."""
    arity = len(ends)
    limits = [(max(e.left + e.right, e.beyond), True) for e in ends]
    columns: list[Columns] = []
    # Links of meet come first, so that the tree follows them and tests only add mismatches.
    component, shifts, _ = _potentials(arity, links, lambda k: k.suffixes)
    for root in sorted(set(component)):
        operands = tuple(i for i in range(arity) if component[i] == root)
        if len(operands) == 1:
            continue
        inside = [k for k in links if component[k.first] == root]
        of_meet = [k for k in inside if k.of_meet]
        p, s = max(ends[i].left for i in operands), max(ends[i].right for i in operands)
        beyond = max(ends[i].beyond for i in operands)
        spread = max(shifts[i] for i in operands) - min(shifts[i] for i in operands)
        off = {k: abs(shifts[k.second] - shifts[k.first] - k.suffixes) for k in inside}
        q = max((off[k] for k in of_meet), default=0)
        window = 1 + max((off[k] for k in inside if not k.of_meet), default=0)
        period = max(1, math.gcd(*(off[k] for k in of_meet)))
        ranks_differ = max(abs(k.fixed) for k in inside)
        if all(k.plain for k in inside):
            limit = max(p + s + 2 * spread + 2 * q + window, beyond) + period
            tied_by = {k.first for k in of_meet}
            if len(tied_by) > 1:
                limit += len(tied_by) * (ranks_differ + 1) * period
            for i in operands:
                alone = all(i not in (k.first, k.second) for k in of_meet)
                own = max(ends[i].left + ends[i].right + 1, ends[i].beyond)
                limits[i] = (own if alone and not q else limit, True)
            continue
        failing = sum(any(d.section is not None and d.section.name for d in row) for row in tests)
        if window == 1 and not q:
            # Only columns of different kinds are needed: which of their axes are 1.
            failing = min(failing, 2 ** len(operands) - 1)
            columns.append(
                Columns(
                    operands,
                    tuple(shifts[i] for i in operands),
                    tuple(ends[i].left for i in operands),
                    tuple(ends[i].right for i in operands),
                    tuple(ends[i].ranks for i in operands),
                )
            )
        stretch = p + ranks_differ + 1 + failing * window
        low = max([s + spread, beyond, *(rank for i in operands for rank in fixed[i])])
        for i in operands:
            limits[i] = (low + len(operands) * stretch + 2 * q, q == 0)
    return limits, tuple(columns)
