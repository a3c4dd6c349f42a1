"""The marker class: fields, the pytree they make, and how to tell an implicit array."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.sharding import PartitionSpec
from jaxtyping import Float

import typedqax as tq
from tests.implicit_world import (
    CASES,
    LoraMatrix,
    Rows,
    Zeros,
    transformed,
)
from typedqax._value import (
    ImplicitValue,
    auxiliary_data,
    child_values,
    dispatch_root,
    field_names,
    is_value,
    with_children,
)

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


class Pair(tq.ImplicitArray, materialization="allow"):
    left: tq.ArrayValue
    name: str = tq.aux_field(default="pair")
    right: tq.ArrayValue = 0.0  # type: ignore[assignment]  # a number stands for itself

    def materialize(self) -> Array:
        return self.left + self.right


# --- fields ---------------------------------------------------------------------------------------


def test_fields_are_children_unless_they_are_auxiliary() -> None:
    names = field_names(Pair)
    assert names.children == ("left", "right")
    assert names.auxiliary == ("name",)


def test_fields_are_settled_once() -> None:
    assert field_names(Pair) is field_names(Pair)


def test_a_subclass_has_the_fields_of_its_bases_first() -> None:
    class Triple(Pair):
        third: tq.ArrayValue = 0.0  # type: ignore[assignment]  # a number stands for itself

    assert field_names(Triple).children == ("left", "right", "third")


def test_child_values_are_the_array_fields_in_order() -> None:
    assert child_values(Pair(1.0, "n", 2.0)) == (("left", 1.0), ("right", 2.0))  # type: ignore[arg-type]  # numbers serve


def test_with_children_replaces_fields_and_checks_nothing() -> None:
    value = LoraMatrix(jnp.ones((3, 4)), jnp.ones((3, 2)), jnp.ones((4, 2)), 0.5)
    changed = with_children(value, {"w": "anything"})
    assert type(changed) is LoraMatrix
    assert changed.__dict__["w"] == "anything"
    assert changed.alpha == 0.5
    assert value.w.shape == (3, 4)


# --- the pytree -----------------------------------------------------------------------------------


@cases
def test_flatten_and_unflatten_are_inverse(case: Any) -> None:
    value, _ = case.both()
    leaves, tree = jax.tree.flatten(value)
    again = jax.tree.unflatten(tree, leaves)
    assert type(again) is type(value)
    assert jax.tree.structure(again) == tree
    assert (again.shape, again.dtype) == (value.shape, value.dtype)
    assert all(a is b for a, b in zip(leaves, jax.tree.leaves(again), strict=True))


def test_key_paths_name_the_fields() -> None:
    value, _ = CASES["nested"].both()
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path({"w": value})]
    assert paths == ["['w'].w.x.inside", "['w'].w.factor", "['w'].a.inside", "['w'].b"]


def test_the_leaf_of_a_leafless_class_is_called_its_shape_and_holds_no_byte() -> None:
    ((path, leaf),) = jax.tree.leaves_with_path(Zeros(shape=(3, 4), dtype=jnp.bfloat16))
    assert jax.tree_util.keystr(path) == ".shape"
    assert leaf.shape == (3, 4, 0)
    assert leaf.nbytes == 0


SENTINELS = {
    "object": object(),
    "none": None,
    "bool": True,
    "string": "s",
    "struct": jax.ShapeDtypeStruct((7, 7, 7), jnp.int8),
    "spec": PartitionSpec("x"),
    "scalar": 3.0,
    "wrong shape": np.zeros((1,)),
}


@pytest.mark.parametrize("leaf", SENTINELS.values(), ids=SENTINELS.keys())
@cases
def test_unflatten_never_validates(leaf: Any, case: Any) -> None:
    tree = jax.tree.structure(case.both()[0])
    value = jax.tree.unflatten(tree, [leaf] * tree.num_leaves)
    assert jax.tree.leaves(value, is_leaf=lambda x: x is leaf) == [leaf] * tree.num_leaves
    jax.tree.map(lambda x: x, value, is_leaf=lambda x: x is None)
    repr(value)


def test_tree_map_over_two_arrays_pairs_their_fields() -> None:
    one, two = CASES["lora"].both()[0], CASES["lora"].both(10)[0]
    total = jax.tree.map(jnp.add, one, two)
    assert type(total) is LoraMatrix
    np.testing.assert_array_equal(total.a, one.a + two.a)


def test_other_auxiliary_data_is_another_tree() -> None:
    one, other = CASES["lora"].both()[0], dataclasses.replace(CASES["lora"].both()[0], alpha=2.0)
    assert jax.tree.structure(one) != jax.tree.structure(other)
    with pytest.raises(ValueError, match=r"pytree metadata|custom node data"):
        jax.tree.map(jnp.add, one, other)


def test_equal_auxiliary_data_is_the_same_tree_to_jit() -> None:
    traced = []

    @jax.jit
    def f(x: Any) -> Array:
        traced.append(1)
        return x.materialize()  # type: ignore[no-any-return]  # of an implicit array

    f(Rows(jnp.ones(4), count=3))
    f(Rows(jnp.zeros(4), count=3))
    f(Rows(jnp.zeros(4), count=2))
    assert len(traced) == 2


def test_auxiliary_data_is_what_was_given_what_tells_equals_apart_and_the_aux_fields() -> None:
    assert auxiliary_data(Pair(jnp.ones(3), "n", shape=(3,), dtype=jnp.float32)) == (
        (3,),
        np.dtype("float32"),
        None,  # the aux field is of the type that the class met first
        "n",
    )


def test_a_derived_shape_is_no_part_of_the_tree() -> None:
    one = LoraMatrix(jnp.ones((3, 4)), jnp.ones((3, 2)), jnp.ones((4, 2)))
    other = LoraMatrix(jnp.ones((5, 4)), jnp.ones((5, 2)), jnp.ones((4, 2)))
    assert one.shape != other.shape
    assert jax.tree.structure(one) == jax.tree.structure(other)


# --- trees of axes, specs and masks ---------------------------------------------------------------


def test_a_class_serves_as_a_tree_of_specs() -> None:
    specs = LoraMatrix(PartitionSpec("x", None), PartitionSpec("x"), None, 0.5)  # type: ignore[arg-type]  # a tree of specs
    leaves = jax.tree.leaves(specs, is_leaf=lambda s: isinstance(s, PartitionSpec))
    assert leaves == [PartitionSpec("x", None), PartitionSpec("x")]


def test_a_class_serves_as_a_mask() -> None:
    value = CASES["lora"].both()[0]
    mask = LoraMatrix(False, True, True, 0.5)  # type: ignore[arg-type]  # a tree of masks
    frozen = jax.tree.map(lambda keep, leaf: leaf if keep else None, mask, value)
    assert frozen.w is None
    assert frozen.a is value.a


def test_a_tree_of_axes_is_a_prefix_of_one_of_arrays() -> None:
    axes = LoraMatrix(None, 0, -1, 0.5)  # type: ignore[arg-type]  # a tree of axes
    stacked = CASES["lora"].build(*CASES["lora"].make(0))
    spread = jax.tree.map(
        lambda axis, leaf: (axis, leaf.ndim), axes, stacked, is_leaf=lambda x: x is None
    )
    assert (spread.w, spread.a, spread.b) == ((None, 2), (0, 2), (-1, 2))


# --- telling one ----------------------------------------------------------------------------------


def test_is_implicit_tells_implicit_arrays_from_dense_ones() -> None:
    value, dense = CASES["lora"].both()
    assert tq.is_implicit(value)
    assert not any(map(tq.is_implicit, (dense, np.ones(2), 1.0, None, LoraMatrix)))


def test_is_implicit_holds_inside_the_transform_too() -> None:
    seen: list[tuple[bool, ...]] = []

    def f(w: Any, x: Any) -> None:
        seen.append((tq.is_implicit(w), tq.is_implicit(x), isinstance(w, LoraMatrix)))
        jax.jit(lambda v: seen.append((tq.is_implicit(v), tq.is_implicit(x))))(w)

    tq.use_implicit_args(f)(CASES["lora"].both()[0], jnp.ones(2))
    assert seen[0] == (True, False, True)


def test_is_value_tells_the_array_itself_from_the_tracer_that_stands_for_it() -> None:
    seen = []
    value, _ = CASES["lora"].both()
    transformed(lambda w: seen.append(is_value(w)))(value)
    assert seen == [False]
    assert is_value(value)


def test_array_value_is_any_array() -> None:
    implicit, dense = CASES["zeros"].both()
    for value in (implicit, dense, np.ones(2), np.float32(1.0)):
        assert isinstance(value, tq.ArrayValue)
    for value in (1.0, "s", None, [1.0]):
        assert not isinstance(value, tq.ArrayValue)
    jax.jit(lambda x: pytest.fail("no array") if not isinstance(x, tq.ArrayValue) else x)(dense)


def test_implicit_array_itself_is_dispatched_as_any_implicit() -> None:
    assert dispatch_root(tq.ImplicitArray) is ImplicitValue
    assert dispatch_root(LoraMatrix) is LoraMatrix


def test_a_class_defined_in_a_function_is_a_pytree_of_its_own() -> None:
    def make() -> type[Any]:
        class Local(tq.ImplicitArray):
            x: Float[tq.ArrayValue, "n"]

            def materialize(self) -> Array:
                return self.x

        return Local

    first, second = make(), make()
    structures = [jax.tree.structure(cls(jnp.ones(2))) for cls in (first, second)]
    assert structures[0] != structures[1]
