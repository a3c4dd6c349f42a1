"""The ways in which a call is compared with the dense path: as it is, and transformed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from typedqax._value import is_value


class Way(Protocol):
    """What gives some results of a function of these operands, by their names in `WHERE`."""

    __name__: str

    def __call__(self, function: Callable[..., Any], /, *operands: Any) -> dict[str, Any]:
        """The results."""
        ...


def vjp(function: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """The result, and the cotangents of the operands' leaves."""
    out, pull = jax.vjp(function, *operands)
    return {"value": out, "vjp": pull(jax.tree.map(tangent, out))}


def value(function: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """The result."""
    return {"value": function(*operands)}


def jvp(function: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """The tangent of the result."""
    return {"jvp": jax.jvp(function, operands, jax.tree.map(tangent, operands))[1]}


def vmap(function: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """The results for stacks of two, mapped over."""
    return {"vmap": jax.vmap(function)(*jax.tree.map(two, operands))}


def vmap_dense(function: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """As `vmap`, over the dense operands alone, as a batch goes through a model."""
    axes = tuple([None if is_value(operand) else 0 for operand in operands])
    if all(axis is None for axis in axes):
        return {}
    mapped = [each if is_value(each) else two(each) for each in operands]
    return {"vmap_dense": jax.vmap(function, axes)(*mapped)}


def scan(function: Callable[..., Any], *operands: Any) -> dict[str, Any]:
    """The results for stacks of two, scanned over."""
    stacked = jax.tree.map(two, operands)
    results = jax.lax.scan(lambda _, each: (None, function(*each)), None, stacked)[1]
    return {"scan": results}


# Compiling each for every call would take most of the time: two calls of each handler will do for
# most of them. What `vjp` gives says all that `value` does, so that is for where it fails.
ALL: tuple[Way, ...] = (jvp, vmap, vmap_dense, scan, vjp, value)
ALWAYS: tuple[Way, ...] = (vjp, value)


def tangent(leaf: Any) -> Any:
    """Some tangent of an array, or cotangent."""
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return np.zeros(leaf.shape, jax.dtypes.float0)
    return jnp.cos(jnp.arange(leaf.size, dtype=jnp.float32)).reshape(leaf.shape).astype(leaf.dtype)


def two(leaf: Any) -> Any:
    """Two different arrays of one kind, stacked."""
    half = jnp.asarray(0.5, leaf.dtype)
    other = leaf * half if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf
    return jnp.stack([leaf, other])


WHERE: Mapping[str, str] = {
    "value": "the result",
    "jvp": "its tangent (jvp)",
    "vjp": "the cotangents of the fields (vjp)",
    "vmap": "the result under vmap",
    "vmap_dense": "the result under vmap over the dense operands alone",
    "scan": "the result of scan over slices",
}
"""What each result is, in an error; those that show best what is wrong come first."""
