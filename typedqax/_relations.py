"""Relations between signatures as sets of operand tuples: subset, overlap, coverage.

All answers are exact, with an example where there is one. Where a relation cannot be decided
(opaque expressions, a budget used up) the answer is the one that makes the check of a table
stricter: they overlap, they are no subset; the example then says `certain = False`.

Classes are open: a point of class C stands for every future subclass of C whose only dispatch base
is C, so `Structured` is not covered by all the subclasses that it happens to have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from typedqax._dims import parse_dims
from typedqax._dtypes import ANY_DTYPE, DtypeSet, dtype_atoms, some_dtype
from typedqax._ranks import Row
from typedqax._shapes import Region, canonical, regions
from typedqax._signature import (
    ArrayPattern,
    Conjunction,
    Dense,
    Form,
    Operand,
    Parameter,
    Signature,
    subclasses,
)

MOST_EXTRA_OPERANDS = 5
"""How many operands beyond the fixed ones an example may need at most; more is not looked at."""


class Point(tuple[Operand, ...]):
    """An example: operands of a call. `certain` is False where it could not be decided."""

    certain: bool = True

    def __str__(self) -> str:
        return f"({', '.join(map(str, self))})"


# --- the classes that matter ----------------------------------------------------------------


@dataclass(frozen=True)
class Universe:
    """The classes that some signatures can tell apart; sets of them are ints with a bit for each.

    Those are `Dense`, every class that is mentioned, and of the live subclasses one for each
    further combination of mentioned bases: only a class with several bases gives a new one.

    Attributes:
        classes: in the order of their bits.
    """

    classes: tuple[type, ...]
    _masks: dict[frozenset[type], int] = field(
        default_factory=dict, repr=False, compare=False, hash=False
    )

    @staticmethod
    def of(*signatures: Signature) -> Universe:
        """The universe of all that these signatures mention."""
        mentioned = frozenset().union(*(s.classes for s in signatures)) | {Dense}
        first = sorted(mentioned, key=lambda c: (c is not Dense, len(c.__mro__), c.__qualname__))
        known = {mentioned.intersection(cls.__mro__): cls for cls in first}
        seen: set[type] = set()
        pending = list(first)
        while pending:
            for sub in subclasses(pending.pop()):
                if sub not in seen:
                    seen.add(sub)
                    known.setdefault(mentioned.intersection(sub.__mro__), sub)
                    pending.append(sub)
        return Universe(tuple(known.values()))

    def mask(self, classes: frozenset[type]) -> int:
        """The bits of all classes that are among `classes` or derive from one."""
        found = self._masks.get(classes)
        if found is None:
            found = 0
            for bit, cls in enumerate(self.classes):
                if not classes.isdisjoint(cls.__mro__):
                    found |= 1 << bit
            self._masks[classes] = found
        return found

    def bit(self, cls: type) -> int:
        """The bit of the class that dispatch cannot tell from `cls`; 0 if there is none."""
        if cls in self.classes:
            return 1 << self.classes.index(cls)
        mentioned = frozenset(self.classes)
        mine = mentioned.intersection(cls.__mro__)
        for bit, known in enumerate(self.classes):
            if mentioned.intersection(known.__mro__) - {known} == mine - {known} and known in mine:
                return 1 << bit
        return 0

    def example(self, mask: int) -> type:
        """A class of a non-empty set: an implicit one if there is any, the most general one."""
        dense = self.mask(frozenset({Dense}))
        kept = mask & ~dense or mask
        return self.classes[(kept & -kept).bit_length() - 1]


# --- the calls that a primitive accepts -----------------------------------------------------


@dataclass(frozen=True)
class Domain:
    """The operand tuples that can reach a primitive's handlers at all.

    Attributes:
        signature: which of them the primitive accepts; None for all.
        same_dtype: groups of operands (by index) that have one dtype; `all_same` for all operands.
        all_same: all operands have one dtype, however many there are.
        implicit: at least one operand is implicit.
    """

    signature: Signature | None = None
    same_dtype: tuple[tuple[int, ...], ...] = ()
    all_same: bool = False
    implicit: bool = True

    @staticmethod
    def of_shapes(
        *alternatives: Sequence[str],
        same_dtype: Sequence[Sequence[int]] = (),
        dtypes: Sequence[DtypeSet] | None = None,
        anything: frozenset[type],
    ) -> Domain:
        """The domain whose operands fit one of the alternatives, each a row of axes in text.

        `Domain.of_shapes(("*s", "*s"), ("", "*s"), ("*s", ""), anything=...)` is that of an
        elementwise operation; `anything` are the classes that stand for all: Dense and the root.
        """
        forms = []
        for row in alternatives:
            masks = dtypes or [ANY_DTYPE] * len(row)
            forms.append(
                Form(
                    tuple(
                        Parameter(f"x{i}", (ArrayPattern(anything, mask, parse_dims(text)),))
                        for i, (text, mask) in enumerate(zip(row, masks, strict=True))
                    )
                )
            )
        return Domain(Signature(tuple(forms)), tuple(map(tuple, same_dtype)))

    def groups(self, arity: int) -> tuple[tuple[int, ...], ...]:
        """The groups of operands with one dtype, among so many operands."""
        if self.all_same:
            return (tuple(range(arity)),)
        return tuple(tuple(i for i in group if i < arity) for group in self.same_dtype)

    def rows(self, arity: int) -> tuple[Conjunction | None, ...]:
        """What it demands of so many operands: one of these; a single None for nothing."""
        return (None,) if self.signature is None else self.signature.conjunctions(arity)

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        """The signature, if there is one."""
        return () if self.signature is None else (self.signature,)


UNRESTRICTED = Domain(implicit=False)


# --- the public relations -------------------------------------------------------------------


def is_subset(
    a: Signature, b: Signature, domain: Domain | None = None, universe: Universe | None = None
) -> bool:
    """Whether `b` accepts all that `a` accepts (in the domain)."""
    return difference(a, (b,), domain, universe) is None


def equal(
    a: Signature, b: Signature, domain: Domain | None = None, universe: Universe | None = None
) -> bool:
    """Whether both accept the same (in the domain)."""
    return is_subset(a, b, domain, universe) and is_subset(b, a, domain, universe)


def overlap(
    a: Signature, b: Signature, domain: Domain | None = None, universe: Universe | None = None
) -> Point | None:
    """Operands (in the domain) that both accept."""
    return _escape((a, b), (), domain, universe)


def difference(
    a: Signature,
    covers: Iterable[Signature],
    domain: Domain | None = None,
    universe: Universe | None = None,
) -> Point | None:
    """Operands (in the domain) that `a` accepts, and none of `covers`."""
    return _escape((a,), tuple(covers), domain, universe)


def uncovered_overlap(
    a: Signature,
    b: Signature,
    covers: Iterable[Signature],
    domain: Domain | None = None,
    universe: Universe | None = None,
) -> Point | None:
    """Operands (in the domain) that `a` and `b` accept, and none of `covers`."""
    return _escape((a, b), tuple(covers), domain, universe)


def inhabited(
    a: Signature, domain: Domain | None = None, universe: Universe | None = None
) -> Point | None:
    """Operands (in the domain) that `a` accepts: whether its handler can ever run."""
    return _escape((a,), (), domain, universe)


# --- the search for a point -----------------------------------------------------------------

# Classes and dtypes of every operand, in turn: each an int with a bit for each member.
_Box = tuple[int, ...]


def _escape(
    meet: tuple[Signature, ...],
    tests: tuple[Signature, ...],
    domain: Domain | None,
    universe: Universe | None,
) -> Point | None:
    """A point of all of `meet`, of the domain, and of none of `tests`; certain if possible."""
    domain = domain or UNRESTRICTED
    universe = universe or Universe.of(*meet, *tests, *domain.signatures)
    doubtful: Point | None = None
    arities, all_looked_at = _arities(meet, tests, domain)
    is_open = False  # whether anything is left that only more operands could show
    for arity in arities:
        outside = [c for test in tests for c in test.conjunctions(arity)]
        for inside in itertools.product(*(m.conjunctions(arity) for m in meet), domain.rows(arity)):
            if any(conjunction in outside for conjunction in inside):
                continue
            is_open = True
            point = _escape_conjunctions(
                [c for c in inside if c is not None], outside, domain, arity, universe
            )
            if point is not None:
                if point.certain:
                    return point
                doubtful = doubtful or point
    if doubtful is None and not all_looked_at and is_open:
        return _beyond(arities[-1])
    return doubtful


def _beyond(arity: int) -> Point:
    """A doubtful point: with more operands than are looked at there may be one."""
    point = Point([Operand(Dense, "float32", ())] * arity)
    point.certain = False
    return point


def _arities(
    meet: Sequence[Signature], tests: Sequence[Signature], domain: Domain
) -> tuple[list[int], bool]:
    """Numbers of operands to look at, and whether those are all that matter.

    Operands beyond the fixed ones are interchangeable: two of them tell whether their axes are
    tied, and one is needed for each test that every other operand satisfies.
    """
    everything = (*meet, *tests, *domain.signatures)
    inside = (*meet, *domain.signatures)
    most, is_all = max(s.fixed_arity for s in everything), True
    if all(s.variadic for s in inside):
        rests = sum(
            len(form.rest.alternatives) for t in tests for form in t.forms if form.rest is not None
        )
        is_all = rests <= MOST_EXTRA_OPERANDS
        most += min(max(2, rests), MOST_EXTRA_OPERANDS)
    return [n for n in range(most + 1) if all(s.accepts_arity(n) for s in inside)], is_all


def _escape_conjunctions(
    inside: Sequence[Conjunction],
    outside: Sequence[Conjunction],
    domain: Domain,
    arity: int,
    universe: Universe,
) -> Point | None:
    box = _box(inside[0], universe)
    for conjunction in inside[1:]:
        box = _both(box, _box(conjunction, universe))
    if not all(box):
        return None
    if domain.implicit:
        dense = universe.mask(frozenset({Dense}))
        if not any(box[i] & ~dense for i in range(0, 2 * arity, 2)):
            return None
    predicates = [
        {id(p) for c in inside for p in c[operand].predicates} for operand in range(arity)
    ]
    tests: list[tuple[Row, _Box]] = []
    for conjunction in outside:
        other = _box(conjunction, universe)
        if all(_both(box, other)) and all(
            id(p) in predicates[operand]
            for operand, pattern in enumerate(conjunction)
            for p in pattern.predicates
        ):
            tests.append((_row(conjunction), other))
    rows = tuple(dict.fromkeys(row for row, _ in tests))
    found: Point | None = None
    for region in _regions_of([_row(c) for c in inside], rows):
        covers = [cover for row, cover in tests if region.inside >> rows.index(row) & 1]
        rest = _rest_in_domain(box, covers, domain, arity, universe)
        if rest is not None:
            point = _point(rest, region, universe)
            if point.certain:
                return point
            found = found or point
    return found


def _regions_of(meet: Sequence[Row], tests: Sequence[Row]) -> Sequence[Region]:
    if all(dims.is_free for row in (*meet, *tests) for dims in row):
        # Example sizes all different, as for any other instance.
        return (Region((1 << len(tests)) - 1, tuple((i + 2,) for i in range(len(meet[0])))),)
    return regions(tuple(dict.fromkeys(meet)), tests)


def _row(conjunction: Conjunction) -> Row:
    return canonical(tuple(pattern.dims for pattern in conjunction))


def _box(conjunction: Conjunction, universe: Universe) -> _Box:
    return tuple(
        part for pattern in conjunction for part in (universe.mask(pattern.classes), pattern.dtypes)
    )


def _both(a: _Box, b: _Box) -> _Box:
    return tuple(x & y for x, y in zip(a, b, strict=True))


def _rest_in_domain(
    box: _Box, covers: list[_Box], domain: Domain, arity: int, universe: Universe
) -> _Box | None:
    """A part of the box that is in the domain and in none of the covers."""
    if domain.implicit:
        dense = universe.mask(frozenset({Dense}))
        covers = [*covers, (dense, ANY_DTYPE) * arity]
    groups = [g for g in domain.groups(arity) if len(g) > 1]
    for tied in _with_one_dtype(box, covers, groups):
        rest = _rest(tied, covers)
        if rest is not None:
            return rest
    return None


def _with_one_dtype(
    box: _Box, covers: Sequence[_Box], groups: Sequence[tuple[int, ...]]
) -> Iterator[_Box]:
    """The box cut into those where each group's operands have one and the same dtype."""
    if not groups:
        yield box
        return
    group, *others = groups
    places = [2 * operand + 1 for operand in group]
    common = ANY_DTYPE
    for place in places:
        common &= box[place]
    for atom in dtype_atoms([common, *(cover[place] for cover in covers for place in places)]):
        if atom & common:
            narrowed = tuple(atom if i in places else part for i, part in enumerate(box))
            yield from _with_one_dtype(narrowed, covers, others)


def _rest(box: _Box, covers: Sequence[_Box]) -> _Box | None:
    """A part of the box that is in none of the covers."""
    if not all(box):
        return None
    if not covers:
        return box
    cover, *others = covers
    common = _both(box, cover)
    if not all(common):
        return _rest(box, others)
    for place, part in enumerate(box):
        outside = part & ~cover[place]
        if outside:
            piece = (*common[:place], outside, *box[place + 1 :])
            rest = _rest(piece, others)
            if rest is not None:
                return rest
    return None


def _point(box: _Box, region: Region, universe: Universe) -> Point:
    point = Point(
        Operand(universe.example(box[2 * i]), some_dtype(box[2 * i + 1]), shape)
        for i, shape in enumerate(region.shapes)
    )
    point.certain = region.certain
    return point
