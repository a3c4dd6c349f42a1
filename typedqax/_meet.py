"""The meet: the signature of exactly what two others both accept, as one would write it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from typedqax._dims import Axis, Dims, Section
from typedqax._dtypes import ANY_DTYPE, category_name
from typedqax._polynomial import Polynomial, names_of
from typedqax._ranks import Row
from typedqax._relations import Domain, Universe, is_subset, uncovered_overlap
from typedqax._shapes import one_instance, regions
from typedqax._signature import ArrayPattern, Conjunction, Parameter, Signature, shown_class


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
    masks = [universe.mask(p.classes) & universe.mask(q.classes) for p, q in zip(a, b, strict=True)]
    if not all(masks) or not all(p.dtypes & q.dtypes for p, q in zip(a, b, strict=True)):
        return None
    rows = _unified_row(tuple(p.dims for p in a), tuple(p.dims for p in b))
    if rows is None:
        return None
    found = []
    for p, q, mask, dims in zip(a, b, masks, rows, strict=True):
        classes = _cones(mask, universe)
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
