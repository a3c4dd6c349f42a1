"""The entries of an array, told by how `materialize` computes them and not by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from typedqax import _jax
from typedqax._jax import ClosedJaxpr
from typedqax._run import Run
from typedqax._trace import densify
from typedqax._value import ImplicitValue

ENTRYWISE: Final = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp
    clz complex conj convert_element_type copy cos cosh digamma div eq eq_to erf erf_inv erfc exp
    exp2 expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le le_to lgamma
    log log1p logistic lt lt_to max min mul mulhi ne neg nextafter not or polygamma population_count
    pow real reduce_precision rem round rsqrt select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin sinh sqrt square sub tan tanh xor zeta
    """.split()  # noqa: SIM905  # a list of names, not of strings
)
"""Primitives of which each entry of the result is made of those of the operands at its place."""


def same_filling(run: Run, one: ImplicitValue, other: ImplicitValue) -> bool:
    """Whether both are filled with the same number, computed from the same leaves."""
    return same_entries(run, one, other, [False] * len(jax.tree.leaves(one)))


def same_entries(
    run: Run, one: ImplicitValue, other: ImplicitValue, of_its_shape: Sequence[bool]
) -> bool:
    """Whether both compute each of their entries alike, whatever place and shape it is of.

    It may be computed from the entries at its place of those leaves that have the array's shape, as
    is said for each, and from the others that are scalars.
    """
    try:
        # Both jaxprs are alive here, so that the same address in two params is the same function.
        closed = _materializing(run, one)
        own = _entry(closed, of_its_shape)
        if own is None:
            return False
        compared = _materializing(run, other)
        return own == _entry(compared, of_its_shape)
    except Exception:  # noqa: BLE001  # the class has no array of that shape, and says so somehow
        return False


def _materializing(run: Run, value: ImplicitValue) -> ClosedJaxpr:
    """What `materialize` computes for `value`, from its leaves."""
    leaves, tree = jax.tree.flatten(value)
    quiet = run.quieted()

    def materialized(*leaves: Any) -> Any:
        return densify(jax.tree.unflatten(tree, leaves), quiet)

    shadows = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    return jax.make_jaxpr(materialized)(*shadows)


# --- programs ------------------------------------------------------------------------------------


def _entry(closed: ClosedJaxpr, of_its_shape: Sequence[bool]) -> tuple[Any, ...] | None:
    """The scalar program that gives each entry of the result; None where none is seen to."""
    out = closed.out_avals[0]
    program: list[Any] = [str(out.dtype)]
    names = {
        var: place if tuple(var.aval.shape) == (tuple(out.shape) if flag else ()) else None
        for place, (var, flag) in enumerate(zip(closed.jaxpr.invars, of_its_shape, strict=True))
    }
    (entry,) = _read(closed, names, tuple(out.shape), program)
    return None if entry is None else (*program, entry)


def _read(
    closed: ClosedJaxpr, names: dict[Any, Any], shape: tuple[Any, ...], program: list[Any]
) -> list[Any]:
    """The name of each result: what in `program` gives an entry of it; None where nothing does.

    What has a name is a scalar, or has this shape.
    """
    jaxpr = closed.jaxpr
    for var, const in zip(jaxpr.constvars, closed.consts, strict=True):
        names[var] = _number(var.aval, const)

    def name(atom: Any) -> Any:
        return _number(atom.aval, atom.val) if hasattr(atom, "val") else names.get(atom)

    for eqn in jaxpr.eqns:
        operands = [name(atom) for atom in eqn.invars]
        shapes = {tuple(var.aval.shape) for var in eqn.outvars}
        if eqn.primitive.name == "jit":
            inner = eqn.params["jaxpr"]
            results = _read(
                inner, dict(zip(inner.jaxpr.invars, operands, strict=True)), shape, program
            )
        elif None in operands or not shapes <= {(), shape}:
            continue
        elif eqn.primitive.name == "broadcast_in_dim" and not eqn.invars[0].aval.shape:
            results = operands
        elif eqn.primitive.name in ENTRYWISE or shapes | _shapes(eqn.invars) == {()}:
            results = [(len(program), place) for place in range(len(eqn.outvars))]
            program.append((eqn.primitive.name, str(eqn.params), *operands))
        else:
            continue
        names.update(zip(eqn.outvars, results, strict=True))
    return [name(atom) for atom in jaxpr.outvars]


def _shapes(atoms: Sequence[Any]) -> set[tuple[Any, ...]]:
    return {tuple(atom.aval.shape) for atom in atoms}


def _number(aval: Any, number: Any) -> Any:
    """A name for a number that a program has in it; None for what is none, or not known."""
    if aval.shape or _jax.is_traced([number]) or not isinstance(aval.dtype, np.dtype):
        return None
    # Not as it prints: numpy shows eight decimals, of 0.0012345678 and 0.0012345689 the same.
    return str(aval), np.asarray(number).tobytes()
