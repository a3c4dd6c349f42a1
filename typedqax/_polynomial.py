"""Polynomial: an axis size written as an expression of other sizes, in normal form."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

# A size: an int at run time, a Polynomial in a canonical instance, and under jax.export
# one of JAX's own symbolic sizes, which this module only adds, multiplies and compares.
Size: TypeAlias = Any

MAX_POWER = 16


@dataclass(frozen=True, slots=True)
class OpaqueTerm:
    """A function of sizes that is compared as text only: `//`, `%`, `min`, `max`, `abs`."""

    function: str
    arguments: tuple[Size, ...]

    def evaluate(self, sizes: Mapping[str, Size]) -> Size:
        """This function of the arguments' values."""
        return apply_opaque(self.function, tuple(evaluate(a, sizes) for a in self.arguments))

    def __str__(self) -> str:
        if self.function in ("//", "%"):
            left, right = (
                f"({a})" if isinstance(a, Polynomial) and not a.is_one_name() else str(a)
                for a in self.arguments
            )
            return f"{left}{self.function}{right}"
        return f"{self.function}({','.join(map(str, self.arguments))})"


Atom: TypeAlias = str | OpaqueTerm
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Polynomial:
    """A sum of integer multiples of products of atoms; never a mere constant, which is an int.

    Attributes:
        terms: monomials with their non-zero coefficients, sorted, so that equal
            polynomials have equal terms.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def variable(name: str) -> Polynomial:
        """The polynomial that is one name."""
        return Polynomial((((((name, 1),), 1)),))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __add__(self, other: Size) -> Size:
        total = dict(self.terms)
        for monomial, coefficient in _terms(other):
            total[monomial] = total.get(monomial, 0) + coefficient
        return _normal(total)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Size) -> Size:
        return self + other * -1

    def __rsub__(self, other: Size) -> Size:
        return self * -1 + other

    def __mul__(self, other: Size) -> Size:
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in _terms(other):
                powers = dict(left)
                for atom, power in right:
                    powers[atom] = powers.get(atom, 0) + power
                monomial = tuple(sorted(powers.items(), key=_atom_key))
                total[monomial] = total.get(monomial, 0) + a * b
        return _normal(total)

    __rmul__ = __mul__

    def names(self) -> frozenset[str]:
        """Every name in it, those inside opaque terms included."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom, _power in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    for argument in atom.arguments:
                        found |= names_of(argument)
        return frozenset(found)

    def is_one_name(self) -> bool:
        """Whether it is a name and nothing else."""
        ((monomial, coefficient), *others) = self.terms
        return not others and coefficient == 1 and len(monomial) == 1 and monomial[0][1] == 1

    def is_opaque(self) -> bool:
        """Whether a part of it can only be compared as text."""
        return any(isinstance(atom, OpaqueTerm) for mono, _ in self.terms for atom, _p in mono)

    def evaluate(self, sizes: Mapping[str, Size]) -> Size:
        """Its value where every name has the given size."""
        total: Size = 0
        for monomial, coefficient in self.terms:
            product: Size = coefficient
            for atom, power in monomial:
                value = sizes[atom] if isinstance(atom, str) else atom.evaluate(sizes)
                for _ in range(power):
                    product = product * value
            total = total + product
        return total

    def __str__(self) -> str:
        parts: list[str] = []
        for monomial, coefficient in sorted(self.terms, key=lambda t: (-len(t[0]), str(t[0]))):
            factors = [str(a) if p == 1 else f"{a}**{p}" for a, p in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            parts.append(sign + "*".join(factors))
        text = "".join(parts)
        return text.removeprefix("+")


def _atom_key(item: tuple[Atom, int]) -> tuple[str, int]:
    return str(item[0]), item[1]


def _terms(value: Size) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(value, Polynomial):
        return value.terms
    return (((), value),) if value else ()


def _normal(total: Mapping[Monomial, int]) -> Size:
    kept = [(monomial, c) for monomial, c in total.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    return Polynomial(tuple(sorted(kept, key=lambda term: str(term[0]))))


def evaluate(value: Size, sizes: Mapping[str, Size]) -> Size:
    """The value of an int or a Polynomial under the given sizes."""
    return value.evaluate(sizes) if isinstance(value, Polynomial) else value


def names_of(value: Size) -> frozenset[str]:
    """The names in an int (none) or a Polynomial."""
    return value.names() if isinstance(value, Polynomial) else frozenset()


def substitute(value: Size, name: str, replacement: Size) -> Size:
    """`value` with `replacement` in place of `name`."""
    if name not in names_of(value):
        return value
    sizes = {other: Polynomial.variable(other) for other in value.names()}
    sizes[name] = replacement
    return value.evaluate(sizes)


_OPAQUE: dict[str, Callable[..., Any]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
    "abs": abs,
}


def apply_opaque(function: str, arguments: tuple[Size, ...]) -> Size:
    """The function's value on ints; a term that stands for it when an argument is symbolic.

    Raises:
        ZeroDivisionError: division by a size of zero; such a size matches nothing.
    """
    if any(isinstance(a, Polynomial) for a in arguments):
        if function in ("min", "max"):
            arguments = tuple(sorted(set(arguments), key=str))
            if len(arguments) == 1:
                return arguments[0]
        return Polynomial((((((OpaqueTerm(function, arguments), 1),), 1)),))
    return _OPAQUE[function](*arguments)


class ExpressionError(Exception):
    """The text of an axis is no expression of sizes; the message says why."""


def parse_expression(text: str) -> Size:
    """The size that an axis such as `n+1` or `n//2` stands for.

    Raises:
        ExpressionError: the text is not an expression, or one that is not of sizes alone.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        raise ExpressionError("it is neither a name, a number nor an expression") from None
    return _convert(tree.body)


def _convert(node: ast.expr) -> Size:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return Polynomial.variable(name)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _convert(inner) * -1
        case ast.UnaryOp(op=ast.UAdd(), operand=inner):
            return _convert(inner)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _convert(left) + _convert(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _convert(left) - _convert(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _convert(left) * _convert(right)
        case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as op, right=right):
            symbol = "//" if isinstance(op, ast.FloorDiv) else "%"
            try:
                return apply_opaque(symbol, (_convert(left), _convert(right)))
            except ZeroDivisionError:
                raise ExpressionError("it divides by zero") from None
        case ast.BinOp(op=ast.Div()):
            raise ExpressionError("`/` does not give a whole number; write `//`")
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)):
            if not 0 <= power <= MAX_POWER:
                raise ExpressionError(f"a power must be a number from 0 to {MAX_POWER}")
            base, result = _convert(left), 1
            for _ in range(power):
                result = base * result
            return result
        case ast.Call(func=ast.Name(id="min" | "max" | "abs" as name), args=args, keywords=[]):
            if args and (name != "abs" or len(args) == 1):
                values = tuple(_convert(a) for a in args)
                return (
                    values[0] if name != "abs" and len(values) == 1 else apply_opaque(name, values)
                )
            raise ExpressionError(f"{name} has the wrong number of arguments")
        case _:
            raise ExpressionError(
                "only names, whole numbers, + - * // % ** and min, max, abs can be in it"
            )
