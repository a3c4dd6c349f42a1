"""What tests of other people's code share: parameters, the dense run, and what became dense."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import typedqax as tq
from typedqax.arrays import EYE, INT8, LORA, MASKED, ZEROS, Int8Matrix, LoraMatrix, Zeros

ALL = tq.HandlerTable("all", LORA, INT8, EYE, ZEROS, MASKED)


def implicit(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` for implicit arrays, with the ready-made handlers."""
    return tq.use_implicit_args(f, handlers=ALL)


# --- parameters ----------------------------------------------------------------------------------


def numbers(seed: int, *shape: int) -> Array:
    """Numbers between -1 and 1, no two alike."""
    return jnp.asarray(np.random.default_rng(seed).uniform(-1, 1, shape), jnp.float32)


def lora(seed: int, m: int, n: int, rank: int = 2) -> LoraMatrix:
    """A matrix whose adapter already says something."""
    return LoraMatrix(
        numbers(seed, m, n), numbers(seed + 1, m, rank), numbers(seed + 2, n, rank), alpha=0.5
    )


def int8(seed: int, m: int, n: int, axis: int = 0) -> Int8Matrix:
    """A matrix of bytes."""
    return Int8Matrix.quantize(numbers(seed, m, n), axis=axis)


def zeros(*shape: int) -> Zeros:
    """Zeros that take no memory."""
    return Zeros(shape=shape, dtype=jnp.float32)


# --- comparison ----------------------------------------------------------------------------------


def same(got: Any, expected: Any, tolerance: float = 2e-5) -> None:
    """Both trees have the same structure, shapes, dtypes and numbers, made dense if need be."""
    if jax.tree.structure(got) != jax.tree.structure(expected):
        got, expected = tq.materialize(got), tq.materialize(expected)
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for (path, one), other in zip(
        jax.tree.leaves_with_path(got), jax.tree.leaves(expected), strict=True
    ):
        where = jax.tree_util.keystr(path)
        assert jnp.shape(one) == jnp.shape(other), where
        assert jax.dtypes.result_type(one) == jax.dtypes.result_type(other), where
        scale = max(1.0, float(np.max(np.abs(np.asarray(other, np.float64)), initial=0)))
        np.testing.assert_allclose(
            one, other, rtol=tolerance, atol=tolerance * scale, err_msg=where
        )


def trainable(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The floating leaves of `tree`, and what puts others in their place."""
    leaves, structure = jax.tree.flatten(tree)
    floating = [jnp.issubdtype(jax.dtypes.result_type(leaf), jnp.inexact) for leaf in leaves]

    def rebuilt(new: list[Any]) -> Any:
        own = iter(new)
        return structure.unflatten(
            [next(own) if moves else leaf for leaf, moves in zip(leaves, floating, strict=True)]
        )

    return [leaf for leaf, moves in zip(leaves, floating, strict=True) if moves], rebuilt


def agrees(
    f: Callable[..., Any],
    *args: Any,
    dense: Mapping[str, set[str]] | None = None,
    tolerance: float = 2e-5,
    grad: bool = True,
) -> None:
    """`f` gives for implicit arguments what it gives for the arrays that they stand for.

    The run on dense arrays knows nothing of the transform. Nothing becomes dense, or what `dense`
    names: `explain` tells of all of that and of nothing else.

    Args:
        f: other people's code.
        args: its arguments, some of them implicit.
        dense: by class, the primitives for which it becomes dense.
        tolerance: how far numbers may differ.
        grad: `f` gives a scalar, and its gradients in all floating fields are compared too.
    """
    transformed, (leaves, rebuilt) = implicit(f), trainable(args)
    named = dense or {}

    def through(leaves: list[Any]) -> Any:
        return transformed(*rebuilt(leaves))

    def reference(leaves: list[Any]) -> Any:
        return f(*tq.materialize(rebuilt(leaves)))

    if grad:
        through, reference = jax.value_and_grad(through), jax.value_and_grad(reference)
    expected = jax.jit(reference)(leaves)
    with tq.materialization("allow" if named else "error"):
        same(jax.jit(through)(leaves), expected, tolerance)
        same(transformed(*args), expected[0] if grad else expected, tolerance)
    told: dict[str, set[str]] = {}
    for line in tq.explain(through)(leaves).materialized:
        for cls in line.dense:
            told.setdefault(cls.__name__, set()).add(line.primitive)
    assert told == named, told
