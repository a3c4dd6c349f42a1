"""Relations between signatures as sets of operand tuples: subset, overlap, coverage, meet.

All answers are exact, with an example where there is one. Where a relation cannot be decided
(opaque expressions, a budget used up) the answer is the one that makes the check of a table
stricter: they overlap, they are no subset; the example then says `certain = False`.

Classes are open: a point of class C stands for every future subclass of C whose only dispatch base
is C, so `Structured` is not covered by all the subclasses that it happens to have.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from typedqax._dims import Axis, Dims, Section, parse_dims
from typedqax._dtypes import ANY_DTYPE, DtypeSet, category_name, dtype_atoms, some_dtype
from typedqax._polynomial import Polynomial, names_of
from typedqax._ranks import Row
from typedqax._shapes import Region, canonical, one_instance, regions
from typedqax._signature import (
    ArrayPattern,
    Conjunction,
    Dense,
    Form,
    Operand,
    Parameter,
    Signature,
    shown_class,
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


# --- the meet -------------------------------------------------------------------------------


def meet(a: Signature, b: Signature, domain: Domain | None = None) -> Signature | None:
    """The signature that accepts exactly what both accept, if one annotation an operand can say it.

    It is proposed by unifying the two, then verified; None if the proposal is not exact.
    """
    universe = Universe.of(a, b, *(domain.signatures if domain else ()))
    arities = [
        n
        for n in range(max(a.fixed_arity, b.fixed_arity) + 1)
        if a.accepts_arity(n) and b.accepts_arity(n)
    ]
    if len(arities) != 1 or (a.variadic and b.variadic):
        return None
    (arity,) = arities
    seen: set[Conjunction] = set()
    for first, second in itertools.product(a.conjunctions(arity), b.conjunctions(arity)):
        proposal = _unify(first, second, universe)
        if proposal is None or proposal in seen:
            continue
        seen.add(proposal)
        names = [p.name for p in a.forms[0].at(arity)]
        found = Signature.of(
            *(Parameter(n, (p,), text=p.text) for n, p in zip(names, proposal, strict=True))
        )
        candidates = [found]
        if any(form.swapped for form in (*a.forms, *b.forms)) and arity == 2:
            candidates.append(found.commutative())
        for candidate in candidates:
            if (
                is_subset(candidate, a, domain, universe)
                and is_subset(candidate, b, domain, universe)
                and uncovered_overlap(a, b, (candidate,), domain, universe) is None
            ):
                return candidate
    return None


def _unify(a: Conjunction, b: Conjunction, universe: Universe) -> Conjunction | None:
    if not all(_both(_box(a, universe), _box(b, universe))):
        return None
    row_a, row_b = tuple(p.dims for p in a), tuple(p.dims for p in b)
    rows = _unified_row(row_a, row_b)
    if rows is None:
        return None
    found = []
    for p, q, dims in zip(a, b, rows, strict=True):
        classes = _cones(universe.mask(p.classes) & universe.mask(q.classes), universe)
        if classes is None:
            return None
        dtypes = p.dtypes & q.dtypes
        predicates = tuple({id(v): v for v in (*p.predicates, *q.predicates)}.values())
        new = ArrayPattern(classes, dtypes, dims, predicates)
        text = next((k.text for k in (p, q) if k.text and replace(new, text=k.text) == k), None)
        text = text or _written(new)
        if text is None:
            return None
        found.append(replace(new, text=text))
    return tuple(found)


def _cones(mask: int, universe: Universe) -> frozenset[type] | None:
    """The classes whose cones together are the set."""
    inside = [cls for bit, cls in enumerate(universe.classes) if mask >> bit & 1]
    tops = frozenset(c for c in inside if not any(o is not c and issubclass(c, o) for o in inside))
    return tops if universe.mask(tops) == mask else None


def _written(pattern: ArrayPattern) -> str | None:
    """The pattern as one annotation."""
    if pattern.predicates:
        return None
    names = sorted(map(shown_class, pattern.classes))
    both = "ArrayValue" if names == ["Array", "ImplicitArray"] else None
    if pattern.dtypes == ANY_DTYPE and pattern.dims.is_free:
        return both or " | ".join(names)
    dtype = category_name(pattern.dtypes)
    if dtype is None:
        return None
    return " | ".join(f'{dtype}[{name}, "{pattern.dims}"]' for name in ([both] if both else names))


def _unified_row(a: Row, b: Row) -> Row | None:
    """Dims that say what both rows say, with the names of one of them; None if there are none."""
    for own, other in ((a, b), (b, a)):
        if all(region.inside and region.certain for region in regions((own,), (other,))):
            return own
    left = [max(len(p.left), len(q.left)) for p, q in zip(a, b, strict=True)]
    open_ended = [
        p.section is not None and q.section is not None for p, q in zip(a, b, strict=True)
    ]
    ranks = []
    for p, q, before, is_open in zip(a, b, left, open_ended, strict=True):
        after = max(len(p.right), len(q.right))
        sizes = {d.fixed for d in (p, q) if d.section is None}
        if len(sizes) > 1:
            return None
        # One axis stands for the part of any length.
        ranks.append(before + 1 + after if is_open else sizes.pop())
    if not all(d.fits_rank(rank) for row in (a, b) for d, rank in zip(row, ranks, strict=True)):
        return None
    shapes = one_instance((a, b), ranks)
    if shapes is None:
        return None
    return _named(shapes, a, b, [p if o else None for p, o in zip(left, open_ended, strict=True)])


def _named(
    shapes: Sequence[tuple[object, ...]], a: Row, b: Row, sections: Sequence[int | None]
) -> Row | None:
    """The instance as dims: a name for each size that occurs twice, taken from the rows."""
    uses: dict[object, int] = {}
    for shape in shapes:
        for size in shape:
            for key in names_of(size) or ((size,) if not isinstance(size, int) else ()):
                uses[key] = uses.get(key, 0) + 1
    names: dict[object, str] = {}
    for row in (a, b):
        for dims, shape in zip(row, shapes, strict=True):
            for position, axis in dims.positions:
                variable = _variable(shape[position]) if position < len(shape) else None
                if isinstance(axis.size, str) and variable and axis.size not in names.values():
                    names.setdefault(variable, axis.size)
    spare = (f"n{i}" for i in itertools.count())
    starred: set[str] = set()
    found = []
    for shape, section in zip(shapes, sections, strict=True):
        axes: list[Axis | Section] = []
        for position, size in enumerate(shape):
            variable = _variable(size)
            if variable is None:
                if isinstance(size, int):
                    axes.append(Axis(size))
                elif isinstance(size, Polynomial):
                    try:
                        renamed = {v: Polynomial.variable(names[v]) for v in size.names()}
                    except KeyError:
                        return None
                    axes.append(Axis(size.evaluate(renamed)))
                continue
            if position == section:
                if uses[variable] == 1:
                    axes.append(Section(None))
                else:
                    starred.add(variable)
                    axes.append(Section(names.setdefault(variable, next(spare))))
            elif uses[variable] == 1:
                axes.append(Axis(names.get(variable)))
            else:
                if variable in starred:
                    return None
                axes.append(Axis(names.setdefault(variable, next(spare))))
        if section is None:
            found.append(Dims(tuple(x for x in axes if isinstance(x, Axis))))
        elif isinstance(axes[section], Section):
            found.append(
                Dims(
                    tuple(x for x in axes[:section] if isinstance(x, Axis)),
                    next(x for x in axes if isinstance(x, Section)),
                    tuple(x for x in axes[section + 1 :] if isinstance(x, Axis)),
                )
            )
        else:
            return None
    return tuple(found)


def _variable(size: object) -> str | None:
    """The name if the size is one free variable, else None."""
    if isinstance(size, Polynomial):
        names = size.names()
        if len(names) == 1 and Polynomial.variable(next(iter(names))) == size:
            return next(iter(names))
    return None
