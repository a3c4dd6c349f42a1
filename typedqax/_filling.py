"""The number that fills an array, told by what `materialize` computes and not by its numbers."""

from __future__ import annotations

from typing import Any

import jax

from typedqax._run import Run
from typedqax._trace import densify
from typedqax._value import ImplicitValue


def same_filling(run: Run, one: ImplicitValue, other: ImplicitValue) -> bool:
    """Whether both are filled with the same number, computed from the same leaves."""
    filling = _filling(run, one)
    if filling is None:
        return False
    try:
        return filling == _filling(run, other)
    except Exception:  # noqa: BLE001  # the class has no array of that shape, and says so somehow
        return False


def _filling(run: Run, value: ImplicitValue) -> tuple[Any, ...] | None:
    """The scalar program whose result `materialize` broadcasts; None where it does otherwise."""
    leaves, tree = jax.tree.flatten(value)
    quiet = run.quieted()

    def materialized(*leaves: Any) -> Any:
        return densify(jax.tree.unflatten(tree, leaves), quiet)

    shadows = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves]
    closed = jax.make_jaxpr(materialized)(*shadows)
    jaxpr = closed.jaxpr
    names: dict[Any, Any] = {var: place for place, var in enumerate(jaxpr.invars)}

    def name(atom: Any) -> Any:
        return repr(atom.val) if hasattr(atom, "val") else names.get(atom)

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
