"""The number that fills an array, told by what `materialize` computes and not by its numbers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from typedqax._jax import ClosedJaxpr
from typedqax._run import Run
from typedqax._trace import densify
from typedqax._value import ImplicitValue


def same_filling(run: Run, one: ImplicitValue, other: ImplicitValue) -> bool:
    """Whether both are filled with the same number, computed from the same leaves."""
    own = _materializing(run, one)
    filling = _filling(own)
    if filling is None:
        return False
    try:
        # Both jaxprs are alive here, so that the same address in two params is the same function.
        return filling == _filling(_materializing(run, other))
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


def _filling(closed: ClosedJaxpr) -> tuple[Any, ...] | None:
    """The scalar program whose result `materialize` broadcasts; None where it does otherwise."""
    jaxpr = closed.jaxpr
    names: dict[Any, Any] = {var: place for place, var in enumerate(jaxpr.invars)}

    def name(atom: Any) -> Any:
        if not hasattr(atom, "val"):
            return names.get(atom)
        # Not as it prints: numpy shows eight decimals, of 0.0012345678 and 0.0012345689 the same.
        return str(atom.aval), np.asarray(atom.val).tobytes()

    program: list[Any] = [str(closed.out_avals[0].dtype)]
    filled = jaxpr.outvars[0]
    for eqn in jaxpr.eqns:
        broadcasts = eqn.primitive.name == "broadcast_in_dim" and eqn is jaxpr.eqns[-1]
        if any(atom.aval.shape for atom in eqn.invars) or any(
            var.aval.shape for var in eqn.outvars if not broadcasts
        ):
            return None
        if broadcasts and eqn.outvars[0] is filled:
            filled = eqn.invars[0]
            break
        names.update({var: (len(program), place) for place, var in enumerate(eqn.outvars)})
        program.append((eqn.primitive.name, str(eqn.params), *map(name, eqn.invars)))
    if filled.aval.shape or closed.consts:
        return None
    return (*program, name(filled))
