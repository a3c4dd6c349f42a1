"""JAX's rules for the primitives of `_primitives`: to run, compile, differentiate and map them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.interpreters import ad, batching, mlir

from typedqax import _jax
from typedqax._aval import look
from typedqax._materialization import STAGED
from typedqax._primitives import implicit_array_p, materialize_p, of_equation
from typedqax._scope import can_be_stacked, densify_for
from typedqax._value import ImplicitValue


def _dense(*leaves: Any, **params: Any) -> jax.Array:
    """The dense array, which is said."""
    value: ImplicitValue = of_equation(params, leaves)
    return densify_for(value, STAGED, "apply it under use_implicit_args")


def _numbers_of(
    leaves: Sequence[Any], places: Sequence[int], params: Mapping[str, Any]
) -> Callable[..., jax.Array]:
    """The dense array as a function of the leaves at these places."""

    def numbers(*given: Any) -> jax.Array:
        filled = list(leaves)
        for place, leaf in zip(places, given, strict=True):
            filled[place] = leaf
        return densify_for(of_equation(params, filled), "a derivative", _OUTSIDE)

    return numbers


_OUTSIDE = "differentiate outside, as in jax.grad(tq.use_implicit_args(f))"


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """The array itself, and a dense tangent of the numbers that it stands for."""
    places = [place for place, tangent in enumerate(tangents) if not isinstance(tangent, _jax.Zero)]
    moving, moves = [[each[place] for place in places] for each in (primals, tangents)]
    one = _jax.bind(implicit_array_p, primals, params)
    _, tangent = jax.jvp(_numbers_of(primals, places, params), moving, moves)
    return one, tangent


def _transposed(cotangent: Any, *leaves: Any, **params: Any) -> list[Any]:
    """The cotangents of the leaves that the dense array is linear in."""
    places = [place for place, leaf in enumerate(leaves) if ad.is_undefined_primal(leaf)]
    avals = [leaves[place].aval for place in places]
    found: list[Any] = [None] * len(leaves)
    if isinstance(cotangent, _jax.Zero):
        given = map(_jax.Zero, avals)
    else:
        given = jax.linear_transpose(_numbers_of(leaves, places, params), *avals)(cotangent)
    for place, leaf in zip(places, given, strict=True):
        found[place] = leaf
    return found


def _batched(leaves: Sequence[Any], axes: Sequence[Any], **params: Any) -> tuple[Any, int]:
    """A stack, where the leaves of the class can be stacked; otherwise dense arrays."""
    mapped = [axis is not None for axis in axes]
    moved = [
        jax.numpy.moveaxis(leaf, axis, 0) if has_axis else leaf
        for leaf, axis, has_axis in zip(leaves, axes, mapped, strict=True)
    ]
    avals = list(map(jax.typeof, moved))
    (size,) = {aval.shape[0] for aval, has_axis in zip(avals, mapped, strict=True) if has_axis}
    avals = [
        jax.ShapeDtypeStruct(aval.shape[1:] if has_axis else aval.shape, aval.dtype)
        for aval, has_axis in zip(avals, mapped, strict=True)
    ]
    entry = of_equation(params, avals)
    if can_be_stacked(entry) and not look(entry).batch:
        stack = of_equation(params, moved)
        if look(stack).batch == (size,):
            return _jax.bind(implicit_array_p, moved, params), 0

    def one(*each: Any) -> jax.Array:
        remedy = "annotate the shapes of its fields, so that they can be stacked"
        return densify_for(of_equation(params, each), "jax.vmap", remedy)

    return jax.vmap(one, in_axes=[0 if has_axis else None for has_axis in mapped])(*moved), 0


def register_rules() -> None:
    """Tell JAX how to run, compile, differentiate and map these primitives."""
    implicit_array_p.def_impl(_dense)
    mlir.register_lowering(implicit_array_p, mlir.lower_fun(_dense, multiple_results=False))
    ad.primitive_jvps[implicit_array_p] = _jvp
    ad.primitive_transposes[implicit_array_p] = _transposed
    batching.primitive_batchers[implicit_array_p] = _batched
    materialize_p.def_impl(lambda dense: dense)
    mlir.register_lowering(materialize_p, lambda _, dense: [dense])
    ad.deflinear2(materialize_p, lambda cotangent, _: [cotangent])
    batching.defvectorized(materialize_p)
