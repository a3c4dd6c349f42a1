"""Random whole signatures (classes, dtypes, shapes, unions, arities) and all points they accept.

The points are built forwards, as in `brute_force`, from what is drawn: nothing of the library is
used for them, nor are annotations.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tests import brute_force
from tests.brute_force import Choose
from tests.resolver_world import (
    Eye,
    LoraMatrix,
    LoraQuant,
    QuantMatrix,
    Structured,
    Zeros,
)
from typedqax._dims import parse_dims
from typedqax._dtypes import ANY_DTYPE, dtype_set
from typedqax._signature import ArrayPattern, Dense, Form, Operand, Parameter, Signature
from typedqax._value import ImplicitValue

CLASSES = (Dense, Structured, Zeros, LoraMatrix, QuantMatrix, LoraQuant)
DTYPES = ("float32", "int32", "bool")
SIZES = (1, 2)
LONGEST = 1

CLASS_SETS: tuple[tuple[type, ...], ...] = (
    (Dense,),
    (ImplicitValue,),
    (Dense, ImplicitValue),
    (Structured,),
    (Zeros,),
    (Zeros, Eye),
    (LoraMatrix,),
    (QuantMatrix,),
    (LoraQuant,),
    (Dense, Zeros),
)
DTYPE_SETS = (("float32",), ("int32",), ("float32", "int32"), DTYPES, None, None, None)
DIMS = ("", "n", "_", "...", "*b", "n", "#n", "2", "*b", "#*b")


@dataclass(frozen=True)
class Part:
    """What one alternative of one operand is."""

    classes: tuple[type, ...]
    dtypes: tuple[str, ...] | None
    dims: str

    def pattern(self) -> ArrayPattern:
        mask = ANY_DTYPE if self.dtypes is None else dtype_set(self.dtypes)
        return ArrayPattern(frozenset(self.classes), mask, parse_dims(self.dims))

    def kinds(self) -> list[tuple[type, str]]:
        """Every class and dtype that it accepts."""
        return [
            (cls, dtype)
            for cls in CLASSES
            if any(issubclass(cls, base) for base in self.classes)
            for dtype in (self.dtypes or DTYPES)
        ]


@dataclass(frozen=True)
class Drawn:
    """A signature as it was drawn: parts for each operand, and for further ones."""

    operands: tuple[tuple[Part, ...], ...]
    least: int
    rest: tuple[Part, ...] | None = None
    commutative: bool = False

    def signature(self) -> Signature:
        found = [
            Parameter(f"x{i}", tuple(p.pattern() for p in parts), i < self.least)
            for i, parts in enumerate(self.operands)
        ]
        rest = self.rest and Parameter("rest", tuple(p.pattern() for p in self.rest), False)
        whole = Signature((Form(tuple(found), rest or None),))
        return whole.commutative() if self.commutative else whole

    def points(self, most: int) -> frozenset[tuple[Operand, ...]]:
        """Every call of so many operands at most that it accepts."""
        found: set[tuple[Operand, ...]] = set()
        for arity in range(self.least, most + 1):
            parts = [*self.operands[:arity], *[self.rest or ()] * (arity - len(self.operands))]
            for chosen in itertools.product(*parts):
                rows = brute_force.points(tuple(p.dims for p in chosen), SIZES, LONGEST)
                kinds = list(itertools.product(*(p.kinds() for p in chosen)))
                found.update(
                    tuple(Operand(c, d, s) for (c, d), s in zip(kind, row, strict=True))
                    for row in rows
                    for kind in kinds
                )
        if self.commutative:
            found |= {point[::-1] for point in found}
        return frozenset(found)


def random_part(choose: Choose) -> Part:
    return Part(choose(CLASS_SETS), choose(DTYPE_SETS), choose(DIMS))


def random_signature(choose: Choose) -> Drawn:
    """One or two operands, some with unions, defaults, `*args` or both orders."""
    count = choose([1, 2, 2, 2])
    operands = tuple(
        tuple(random_part(choose) for _ in range(choose([1, 1, 1, 2]))) for _ in range(count)
    )
    shape = choose(["plain"] * 5 + ["commutative", "default", "rest"])
    if shape == "commutative" and count == 2:
        return Drawn(operands, 2, commutative=True)
    if shape == "default":
        return Drawn(operands, count - 1)
    if shape == "rest":
        return Drawn(operands[:1], 1, operands[-1])
    return Drawn(operands, count)


def changed(choose: Choose, drawn: Drawn) -> Drawn:
    """The signature with one part changed, so that one often contains the other."""
    where = choose(range(len(drawn.operands)))
    old = drawn.operands[where][0]
    new = choose(
        [
            Part(choose(CLASS_SETS), old.dtypes, old.dims),
            Part(old.classes, choose(DTYPE_SETS), old.dims),
            Part(old.classes, old.dtypes, choose(DIMS)),
        ]
    )
    operands: Sequence[tuple[Part, ...]] = [
        ((new, *parts[1:]) if i == where else parts) for i, parts in enumerate(drawn.operands)
    ]
    return Drawn(tuple(operands), drawn.least, drawn.rest, drawn.commutative)
