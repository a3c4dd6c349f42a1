"""Signature: which tuples of operands a handler accepts, and what their axis names then are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from typedqax._dims import ANY_SHAPE, Dims, Shape, match_shapes
from typedqax._dtypes import ANY_DTYPE, DtypeSet, dtype_bit, short_name


class Dense:
    """What every operand that is not implicit is dispatched as."""


def subclasses(cls: type) -> list[type]:
    """The classes derived from `cls` directly, without those that were defined anew since."""
    derived: list[type] = type.__subclasses__(cls)
    return [each for each in derived if not each.__dict__.get("_superseded", False)]


# The marker class of all implicit arrays is shown by the name that users know.
_SHOWN = {"Dense": "Array", "ImplicitValue": "ImplicitArray"}


def shown_class(cls: type) -> str:
    """A dispatch class by the name that it has in annotations."""
    return _SHOWN.get(cls.__name__, cls.__name__)


@dataclass(frozen=True, slots=True)
class Operand:
    """All that dispatch sees of one operand.

    Attributes:
        cls: its class if it is implicit, else `Dense`.
        dtype: the name of its dtype, such as `float32` or `key<fry>`.
        shape: its sizes.
    """

    cls: type
    dtype: str
    shape: Shape

    def __str__(self) -> str:
        sizes = ",".join(map(str, self.shape))
        return f"{shown_class(self.cls)} {short_name(self.dtype)}[{sizes}]"


class Predicate(Protocol):
    """A validator of beartype: a question about a value that is compared by identity only."""

    def is_valid(self, obj: Any, /) -> bool:
        """Whether the value satisfies it."""
        ...


@dataclass(frozen=True)
class ArrayPattern:
    """One alternative of what an operand may be.

    Attributes:
        classes: it is one of these classes, or derives from one.
        dtypes: it has one of these dtypes.
        dims: its shape fits these.
        predicates: it satisfies all of these.
        choices: (type variable, which of its constraints) that this alternative takes.
        source: the annotation that it was read from.
        text: that annotation as the user wrote it, as far as known.
    """

    classes: frozenset[type]
    dtypes: DtypeSet = ANY_DTYPE
    dims: Dims = ANY_SHAPE
    predicates: tuple[Predicate, ...] = ()
    choices: tuple[tuple[object, int], ...] = ()
    source: object = field(default=None, compare=False, repr=False)
    text: str = field(default="", compare=False)

    def accepts_kind(self, operand: Operand) -> bool:
        """Whether the operand's class and dtype are right."""
        # By __mro__, not issubclass: classes registered with an ABC may change after sealing.
        return bool(self.dtypes >> dtype_bit(operand.dtype) & 1) and not self.classes.isdisjoint(
            operand.cls.__mro__
        )


@dataclass(frozen=True, slots=True)
class Parameter:
    """One operand of a handler, with all that its annotation allows.

    Attributes:
        name: as in the function's signature.
        alternatives: the members of the annotation's union; one if it is none.
        required: whether it has no default.
        text: the annotation as the user wrote it, empty if there is none.
    """

    name: str
    alternatives: tuple[ArrayPattern, ...]
    required: bool = True
    text: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.text else self.name


# One ArrayPattern an operand.
Conjunction = tuple[ArrayPattern, ...]


@dataclass(frozen=True)
class Form:
    """One order of operands that a handler accepts.

    Attributes:
        parameters: the operands, in order.
        rest: what every further operand must be, if there may be any.
        swapped: whether the handler is to be called with its two operands exchanged.
    """

    parameters: tuple[Parameter, ...]
    rest: Parameter | None = None
    swapped: bool = False

    @cached_property
    def least(self) -> int:
        """The smallest number of operands."""
        return sum(parameter.required for parameter in self.parameters)

    def accepts_arity(self, arity: int) -> bool:
        """Whether there may be so many operands."""
        return self.least <= arity and (self.rest is not None or arity <= len(self.parameters))

    def at(self, arity: int) -> tuple[Parameter, ...]:
        """The parameter that each of so many operands belongs to."""
        known = self.parameters[:arity]
        if self.rest is None:
            return known
        return known + (self.rest,) * (arity - len(known))

    @cached_property
    def simple(self) -> tuple[tuple[ArrayPattern, ...], tuple[Dims, ...]] | None:
        """Patterns and dims, when there is nothing to choose."""
        if self.rest is not None or any(len(p.alternatives) != 1 for p in self.parameters):
            return None
        patterns = tuple(p.alternatives[0] for p in self.parameters)
        return patterns, tuple(p.dims for p in patterns)


@dataclass(frozen=True, slots=True)
class AxisOrigin:
    """Where an axis name got its size: the operand's index and the axis (first of a section)."""

    operand: int
    axis: int


@dataclass(frozen=True)
class Match:
    """How a signature accepted some operands.

    Attributes:
        patterns: the alternative taken for each operand.
        bindings: the size of each axis name; of `*b`, a tuple of sizes.
        operands: what was matched.
        swapped: the handler is to be called with its two operands exchanged;
            `patterns` and `operands` are in the order in which they came.
    """

    patterns: tuple[ArrayPattern, ...]
    bindings: Mapping[str, Any]
    operands: tuple[Operand, ...]
    swapped: bool = False

    @cached_property
    def origins(self) -> Mapping[str, AxisOrigin]:
        """Which operand and axis gave each name its size."""
        found: dict[str, AxisOrigin] = {}
        for want_plain in (True, False):
            for index, pattern in enumerate(self.patterns):
                rank = len(self.operands[index].shape)
                for name, axis, plain in _named_axes(pattern.dims, rank):
                    if plain == want_plain:
                        found.setdefault(name, AxisOrigin(index, axis))
        return found


def _named_axes(dims: Dims, rank: int) -> Iterator[tuple[str, int, bool]]:
    for position, axis in dims.positions:
        if isinstance(axis.size, str):
            yield axis.size, position % rank, not axis.broadcast
    if dims.section is not None and dims.section.name is not None:
        yield "*" + dims.section.name, len(dims.left), not dims.section.broadcast


@dataclass(frozen=True)
class Signature:
    """The set of operand tuples that a handler accepts: those of any of its forms.

    Attributes:
        forms: usually one; two for a commutative handler, the given order first.
    """

    forms: tuple[Form, ...]

    @staticmethod
    def of(*parameters: Parameter, rest: Parameter | None = None) -> Signature:
        """The signature with one form."""
        return Signature((Form(parameters, rest),))

    def match(
        self, operands: Sequence[Operand], values: Sequence[object] | None = None
    ) -> Match | None:
        """How the operands are accepted, None if they are not.

        Predicates are asked about `values` when those are given, else taken as satisfied.
        """
        for form in self.forms:
            found = _match_form(form, operands, values)
            if found is not None:
                return found
        return None

    def mirrored(self) -> Signature:
        """The signature with its two operands exchanged."""
        return Signature(tuple(_mirror(form) for form in self.forms))

    def commutative(self) -> Signature:
        """The signature that accepts both orders of its two operands; its own order first."""
        return Signature(self.forms + self.mirrored().forms)

    def conjunctions(self, arity: int) -> tuple[Conjunction, ...]:
        """Every choice of one alternative for each of so many operands."""
        found = self._by_arity.get(arity)
        if found is None:
            found = self._by_arity[arity] = _conjunctions(self, arity)
        return found

    @cached_property
    def _by_arity(self) -> dict[int, tuple[Conjunction, ...]]:
        return {}

    @cached_property
    def fixed_arity(self) -> int:
        """The most operands that have a parameter of their own."""
        return max(len(form.parameters) for form in self.forms)

    @cached_property
    def variadic(self) -> bool:
        """Whether it accepts any number of further operands."""
        return any(form.rest is not None for form in self.forms)

    def accepts_arity(self, arity: int) -> bool:
        """Whether it accepts any operands of this number."""
        return any(form.accepts_arity(arity) for form in self.forms)

    @cached_property
    def patterns(self) -> tuple[ArrayPattern, ...]:
        """Every pattern in it, in order."""
        return tuple(
            pattern
            for form in self.forms
            for parameter in (*form.parameters, *filter(None, [form.rest]))
            for pattern in parameter.alternatives
        )

    @cached_property
    def classes(self) -> frozenset[type]:
        """Every class that it mentions."""
        return frozenset().union(*(pattern.classes for pattern in self.patterns))

    @cached_property
    def shape_free(self) -> bool:
        """Whether the answer never depends on a shape."""
        return all(pattern.dims.is_free for pattern in self.patterns)

    @cached_property
    def dtype_free(self) -> bool:
        """Whether the answer never depends on a dtype."""
        return all(pattern.dtypes == ANY_DTYPE for pattern in self.patterns)

    @cached_property
    def has_predicates(self) -> bool:
        """Whether the answer may depend on a value."""
        return any(pattern.predicates for pattern in self.patterns)

    def looks_at(self, index: int) -> frozenset[str]:
        """Which of `dtype`, `shape` and `value` of the operand at `index` the answer depends on."""
        found: set[str] = set()
        for form in self.forms:
            for parameter in form.at(index + 1)[index:]:
                for pattern in parameter.alternatives:
                    if pattern.dtypes != ANY_DTYPE:
                        found.add("dtype")
                    if not pattern.dims.is_free:
                        found.add("shape")
                    if pattern.predicates:
                        found.add("value")
        return frozenset(found)

    def classes_at(self, index: int) -> frozenset[type]:
        """The classes of whose cones the operand at `index` must be; empty if there is none."""
        return frozenset().union(
            *(
                pattern.classes
                for form in self.forms
                for parameter in form.at(index + 1)[index:]
                for pattern in parameter.alternatives
            )
        )

    def dtypes_at(self, index: int) -> DtypeSet:
        """The dtypes that the operand at `index` may have."""
        mask = 0
        for form in self.forms:
            for parameter in form.at(index + 1)[index:]:
                for pattern in parameter.alternatives:
                    mask |= pattern.dtypes
        return mask

    def render(self, names: Sequence[str] | None = None) -> str:
        """The operands as the user wrote them: `x: Float[Array, "*b m"], w: LoraMatrix`."""
        form = self.forms[0]
        parameters = list(form.parameters)
        if names is not None:
            parameters = [replace(p, name=n) for p, n in zip(parameters, names, strict=False)]
        parts = [str(p) if p.required else f"{p} = ..." for p in parameters]
        if form.rest is not None:
            parts.append(f"*{form.rest}")
        return ", ".join(parts)

    def __str__(self) -> str:
        return f"({self.render()})"


def _mirror(form: Form) -> Form:
    if form.rest is not None or len(form.parameters) != 2:
        raise ValueError("only a signature of exactly two operands has a mirror")
    first, second = form.parameters
    if not (first.required and second.required):
        raise ValueError("a signature with defaults has no mirror")
    return Form((second, first), None, not form.swapped)


def _predicates_hold(patterns: Sequence[ArrayPattern], values: Sequence[object] | None) -> bool:
    return values is None or all(
        predicate.is_valid(value)
        for pattern, value in zip(patterns, values, strict=True)
        for predicate in pattern.predicates
    )


def _match_form(
    form: Form, operands: Sequence[Operand], values: Sequence[object] | None
) -> Match | None:
    arity = len(operands)
    if not form.accepts_arity(arity):
        return None
    simple = form.simple
    if simple is not None and arity == len(simple[0]):
        patterns, dims = simple
        for pattern, operand in zip(patterns, operands, strict=True):
            if not pattern.accepts_kind(operand):
                return None
        bound = match_shapes(dims, [operand.shape for operand in operands])
        if bound is None or not _predicates_hold(patterns, values):
            return None
        return Match(patterns, bound, tuple(operands), form.swapped)
    for chosen in _choices(form, operands):
        bound = match_shapes([p.dims for p in chosen], [operand.shape for operand in operands])
        if bound is not None and _predicates_hold(chosen, values):
            return Match(chosen, bound, tuple(operands), form.swapped)
    return None


def _choices(form: Form, operands: Sequence[Operand]) -> Iterator[tuple[ArrayPattern, ...]]:
    """Every choice of alternatives that fits on its own, one operand after the other."""
    per_operand = []
    for parameter, operand in zip(form.at(len(operands)), operands, strict=True):
        fitting = [
            pattern
            for pattern in parameter.alternatives
            if pattern.accepts_kind(operand) and pattern.dims.fits_rank(len(operand.shape))
        ]
        if not fitting:
            return
        per_operand.append(fitting)
    yield from consistent(per_operand)


def consistent(
    per_operand: Sequence[Sequence[ArrayPattern]],
) -> Iterator[tuple[ArrayPattern, ...]]:
    for chosen in itertools.product(*per_operand):
        taken: dict[object, int] = {}
        if all(
            taken.setdefault(variable, which) == which
            for pattern in chosen
            for variable, which in pattern.choices
        ):
            yield chosen


def _conjunctions(signature: Signature, arity: int) -> tuple[Conjunction, ...]:
    found: dict[Conjunction, None] = {}
    for form in signature.forms:
        if form.accepts_arity(arity):
            for chosen in consistent([p.alternatives for p in form.at(arity)]):
                plain = tuple(replace(p, choices=()) if p.choices else p for p in chosen)
                found.setdefault(plain)
    return merged(tuple(found))


def merged(conjunctions: tuple[Conjunction, ...]) -> tuple[Conjunction, ...]:
    """The same set in fewer conjunctions: two that differ in one class or dtype set are one."""
    pending, done = list(conjunctions), []
    while pending:
        first = pending.pop()
        for index, other in enumerate(pending):
            joined = _join(first, other)
            if joined is not None:
                pending[index] = joined
                break
        else:
            done.append(first)
    return tuple(reversed(done))


def _join(a: Conjunction, b: Conjunction) -> Conjunction | None:
    differing = [i for i, (p, q) in enumerate(zip(a, b, strict=True)) if p != q]
    if len(differing) > 1:
        return None
    if not differing:
        return a
    p, q = a[differing[0]], b[differing[0]]
    if p.dims != q.dims or p.predicates != q.predicates:
        return None
    if p.dtypes == q.dtypes:
        new = replace(p, classes=p.classes | q.classes)
    elif p.classes == q.classes:
        new = replace(p, dtypes=p.dtypes | q.dtypes)
    else:
        return None
    return (*a[: differing[0]], new, *a[differing[0] + 1 :])
