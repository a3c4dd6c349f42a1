"""The calls of a primitive that can occur: JAX would accept them, and an operand is implicit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from typedqax._dims import Dims, parse_dims
from typedqax._dtypes import ANY_DTYPE, DtypeSet, dtype_set, some_dtype
from typedqax._relations import (
    Domain,
    Point,
    Universe,
    difference,
    inhabited,
    overlap,
    uncovered_overlap,
)
from typedqax._signature import ArrayPattern, Dense, Form, Operand, Parameter, Signature
from typedqax._value import ImplicitValue

COMMUTATIVE = frozenset(
    ("add", "add_any", "and", "eq", "max", "min", "mul", "ne", "or", "xor")  # sorted in texts
)
"""Primitives whose two operands may be exchanged."""

# These take operands of one dtype. Each is a scalar, or has the rank of the others, and then each
# of its axes has the others' size or 1 (jax 0.10.2: add f32[2,3] f32[1,3] is a call that keepdims
# leads to, sub f32[2,3] 1.0:f32[] is what x - 1.0 becomes; add f32[2,3] f32[3] is refused).
_ELEMENTWISE = frozenset(
    """
    add atan2 complex div eq eq_to ge gt igamma igamma_grad_a igammac le le_to lt lt_to max min mul
    mulhi ne nextafter polygamma random_gamma_grad rem sub zeta
    """.split()  # noqa: SIM905  # a list of names, not of strings
)
_BITWISE = frozenset(
    ("and", "or", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical")
)
_INTEGERS = dtype_set(
    [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)), "bool"]
)
_MOST_RANK = 6
"""Ranks beyond this are not looked at one by one, where all operands must have one rank."""

Rows: TypeAlias = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The calls of one primitive that can occur; relations between handlers hold within them.

    Attributes:
        domain: all of them, and perhaps calls whose operands differ in rank.
        same_rank: which operands must have one rank; empty if that is no condition.
        scalars: whether a scalar is nevertheless allowed among those.
        by_rank: when there is such a condition, the calls of each rank.
    """

    domain: Domain
    same_rank: tuple[int, ...] = ()
    scalars: bool = False
    by_rank: Callable[[int], Domain] | None = None

    def contains(self, operands: Sequence[Operand]) -> bool:
        """Whether these are operands of a call that can occur."""
        domain = self.domain
        if domain.signature is not None and domain.signature.match(operands) is None:
            return False
        if domain.implicit and not any(issubclass(each.cls, ImplicitValue) for each in operands):
            return False
        return self._of_one_rank(operands) and all(
            len({operands[place].dtype for place in group}) <= 1
            for group in domain.groups(len(operands))
        )

    def _of_one_rank(self, operands: Sequence[Operand]) -> bool:
        if self.by_rank is None:
            return True
        ranks = {len(operands[place].shape) for place in self.same_rank if place < len(operands)}
        if self.scalars:
            ranks.discard(0)
        return len(ranks) <= 1

    def reaching(self, a: Signature) -> Point | None:
        """A call that `a` accepts."""
        for operands in _likely_calls(a):
            if a.match(operands) is not None and self.contains(operands):
                return Point(operands)
        # Every class that it mentions is itself accepted, so derived ones need not be looked at.
        universe = Universe(tuple(a.classes | _ANYTHING))
        return self._exact(lambda domain: inhabited(a, domain, universe), (a,))

    def outside(self, a: Signature, b: Signature, universe: Universe | None = None) -> Point | None:
        """A call that `a` accepts and `b` does not; None: `a` is a subset of `b`."""
        return self._exact(lambda domain: difference(a, (b,), domain, universe), (a, b))

    def shared(self, a: Signature, b: Signature, universe: Universe | None = None) -> Point | None:
        """A call that both accept."""
        return self._exact(lambda domain: overlap(a, b, domain, universe), (a, b))

    def uncovered(
        self,
        a: Signature,
        b: Signature,
        covers: Sequence[Signature],
        universe: Universe | None = None,
    ) -> Point | None:
        """A call that both accept, and none of `covers`."""
        return self._exact(
            lambda domain: uncovered_overlap(a, b, covers, domain, universe), (a, b, *covers)
        )

    def _exact(
        self, ask: Callable[[Domain], Point | None], signatures: Iterable[Signature]
    ) -> Point | None:
        """The answer of `ask`, where ranks matter for each rank on its own.

        The domain as a whole is asked first: nothing there is nothing anywhere, and mostly what
        is found there is a call that JAX accepts.
        """
        found = ask(self.domain)
        if found is None or self.by_rank is None or self._of_one_rank(found):
            return found
        longest = max(
            (pattern.dims.fixed for each in signatures for pattern in each.patterns), default=0
        )
        for rank in range(min(longest + 2, _MOST_RANK) + 1):
            found = ask(self.by_rank(rank))
            if found is not None:
                return found
        return None


@lru_cache(maxsize=1024)
def primitive_domain(name: str, arity: int | None) -> Calls:
    """The calls of the primitive `name` that can occur; `arity` is its number of operands."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special
    if arity is None:
        return Calls(Domain())
    return Calls(Domain(_fixed([["..."] * arity])))


_ANYTHING = frozenset({Dense, ImplicitValue})


def _likely_calls(a: Signature) -> Iterator[tuple[Operand, ...]]:
    """A few calls of one dtype and one shape, which most handlers accept.

    To try them takes a tenth of the time that the search for a call takes.
    """
    arity = max(1, a.fixed_arity)
    dtypes = ANY_DTYPE
    for place in range(arity):
        dtypes &= a.dtypes_at(place)
    if not dtypes:
        return
    dtype = some_dtype(dtypes)
    kinds = [
        min(a.classes_at(place) - {Dense}, key=lambda cls: cls.__qualname__, default=Dense)
        for place in range(arity)
    ]
    for shape in ((2, 3), (2,), (), (2, 3, 4)):
        yield tuple(Operand(cls, dtype, shape) for cls in kinds)


def _pattern(dims: Dims, dtypes: DtypeSet) -> tuple[ArrayPattern, ...]:
    return (ArrayPattern(_ANYTHING, dtypes, dims),)


def _fixed(
    rows: Rows, dtypes: Sequence[DtypeSet] | None = None, rest: str | None = None
) -> Signature:
    """The signature of operands that fit one of the rows, each the axes of one operand in text.

    `rest` are the axes of every further operand; the last of `dtypes` is theirs, too.
    """
    forms = []
    for row in rows:
        masks = dtypes or [ANY_DTYPE] * (len(row) + 1)
        named = [
            Parameter(f"x{place}", _pattern(parse_dims(text), masks[place]))
            for place, text in enumerate(row)
        ]
        more = None if rest is None else Parameter("rest", _pattern(parse_dims(rest), masks[-1]))
        forms.append(Form(tuple(named), more))
    return Signature(tuple(forms))


def _axes(rank: int, mark: str = "") -> str:
    """Axes of their own names, or, for `_`, of none."""
    return " ".join("_" if mark == "_" else f"{mark}n{place}" for place in range(rank))


def _elementwise(dtypes: DtypeSet = ANY_DTYPE) -> Calls:
    masks = [dtypes, dtypes]

    @lru_cache(maxsize=_MOST_RANK + 1)
    def of_rank(rank: int) -> Domain:
        shape = _axes(rank, "#")
        rows = [("", shape), (shape, ""), (shape, shape)]
        return Domain(_fixed(rows, masks), all_same=True)

    whole = Domain(_fixed([("#*s", "#*s")], masks), all_same=True)
    return Calls(whole, same_rank=(0, 1), scalars=True, by_rank=of_rank)


_ALL = tuple(range(64))


@lru_cache(maxsize=_MOST_RANK + 1)
def _concatenated(rank: int) -> Domain:
    return Domain(_fixed([[]], rest=_axes(rank, "_")), all_same=True)


@lru_cache(maxsize=_MOST_RANK + 1)
def _updated(rank: int) -> Domain:
    shape = _axes(rank, "_")
    masks = [ANY_DTYPE, ANY_DTYPE, _INTEGERS]
    return Domain(_fixed([(shape, shape)], masks, rest=""), same_dtype=((0, 1),))


@lru_cache(maxsize=_MOST_RANK + 1)
def _convolved(rank: int) -> Domain:
    return Domain(_fixed([(_axes(rank, "_"),) * 2]), all_same=True)


# Only conditions under which everything that JAX accepts remains: a call that is left out here
# could be ambiguous without anybody noticing.
_SPECIAL: dict[str, Calls] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise()),
    **dict.fromkeys(_BITWISE, _elementwise(_INTEGERS)),
    "add_any": Calls(Domain(_fixed([("*s", "*s")]), all_same=True)),
    "clamp": Calls(
        Domain(
            _fixed([("", "*s", ""), ("*s", "*s", "*s"), ("", "*s", "*s"), ("*s", "*s", "")]),
            all_same=True,
        )
    ),
    "select_n": Calls(
        Domain(
            _fixed([("*s",), ("",)], [_INTEGERS, ANY_DTYPE], rest="*s"),
            same_dtype=(_ALL[1:],),
        )
    ),
    "pad": Calls(Domain(_fixed([("...", "")]), all_same=True)),
    "concatenate": Calls(
        Domain(_fixed([[]], rest="..."), all_same=True),
        same_rank=_ALL,
        by_rank=_concatenated,
    ),
    "dynamic_slice": Calls(Domain(_fixed([("...",)], [ANY_DTYPE, _INTEGERS], rest=""))),
    "dynamic_update_slice": Calls(
        Domain(
            _fixed([("...", "...")], [ANY_DTYPE, ANY_DTYPE, _INTEGERS], rest=""),
            same_dtype=((0, 1),),
        ),
        same_rank=(0, 1),
        by_rank=_updated,
    ),
    "conv_general_dilated": Calls(
        Domain(_fixed([("...", "...")]), all_same=True), same_rank=(0, 1), by_rank=_convolved
    ),
}
