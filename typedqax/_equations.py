"""Solution: substitutions that make polynomials zero, as far as they can be found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from typedqax._polynomial import Monomial, Polynomial, Size, names_of, substitute

LARGEST_ROOT = 60_000
"""Integer roots of one equation in one unknown are tried up to here."""

Solution: TypeAlias = tuple[tuple[str, Size], ...]


def is_zero(value: Size) -> bool:
    """Whether it is the number 0."""
    return isinstance(value, int) and value == 0


def is_negative(value: Size) -> bool:
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


def solve(zeros: list[Size], done: Solution) -> Iterator[tuple[Solution, bool]]:
    """Substitutions, in order, that make all `zeros` 0, and whether an equation is left over."""
    pending = [z for z in zeros if not is_zero(z)]
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
            yield from solve([*rest, *others], (*done, (name, replacement)))
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
        if limit > LARGEST_ROOT:
            return None
        return [
            (name, root, []) for root in range(limit + 1) if is_zero(zero.evaluate({name: root}))
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
        factor = zero.terms[0][0]
        if len(factor) == 1:
            name = str(factor[0][0])
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
