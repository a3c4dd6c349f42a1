"""chex: assertions on implicit arrays, outside the transform and inside."""

from __future__ import annotations

from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest
from jax import Array

from tests.third_party.kit import agrees, implicit, int8, lora, numbers, zeros

X = numbers(9, 6, 4)


def test_trees_of_implicit_arrays_are_compared() -> None:
    tree: Any = {"lora": lora(1, 3, 4), "bias": zeros(4), "bytes": int8(1, 3, 4)}
    chex.assert_trees_all_close(tree, tree)
    chex.assert_trees_all_equal_shapes_and_dtypes(tree, tree)
    chex.assert_tree_all_finite(tree)
    with pytest.raises(AssertionError):
        chex.assert_trees_all_close(tree, {**tree, "lora": lora(2, 3, 4)})
    with pytest.raises(AssertionError):
        chex.assert_trees_all_equal_structs(tree, {**tree, "lora": numbers(1, 3, 4)})


def checked(w: Array, x: Array) -> Array:
    chex.assert_shape(w, (4, 3))
    chex.assert_rank([w, x], 2)
    chex.assert_type([w, x], jnp.float32)
    chex.assert_axis_dimension(w, 0, x.shape[1])
    chex.assert_equal_shape_prefix([w, x.T], 1)
    chex.assert_trees_all_equal_shapes({"w": w}, {"w": w})
    return jnp.sum(x @ w)


def test_shapes_are_asserted_of_an_implicit_array_as_of_the_dense_one() -> None:
    agrees(checked, lora(1, 4, 3), X)
    chex.assert_shape(lora(1, 4, 3), (4, 3))
    with pytest.raises(AssertionError):
        implicit(checked)(lora(1, 4, 2), X)


def test_a_dataclass_of_chex_holds_implicit_arrays() -> None:
    @chex.dataclass
    class Layer:
        w: Any
        b: Any

    agrees(lambda layer: jnp.sum(X @ layer.w + layer.b), Layer(w=lora(1, 4, 3), b=zeros(3)))


def test_new_numbers_of_the_same_types_are_not_traced_again() -> None:
    chex.clear_trace_counter()

    @chex.assert_max_traces(n=1)
    def times(w: Array) -> Array:
        return X @ w

    compiled = jax.jit(implicit(times))
    compiled(lora(1, 4, 3))
    assert compiled(lora(5, 4, 3)).shape == (6, 3)
    with pytest.raises(AssertionError, match="traced"):
        compiled(lora(5, 4, 2))
