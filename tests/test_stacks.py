"""Primitives that act on batch axes alone act on those of the leaves, and make nothing dense."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jaxtyping import Float

import typedqax as tq
from tests.agreement import (
    X,
    assert_agrees,
    assert_same,
    equations,
    has_dense,
    low_rank,
    rng,
    staged,
    use,
)
from tests.implicit_kinds import HANDLERS, KINDS, Counting, LowRank, Plain, Zeros, dense, numbers
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks


def stack(*items: Any) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *items)


LAYERS: LowRank = stack(*[low_rank(seed=seed) for seed in range(3)])
STACKS: dict[str, Any] = {
    "layers": LAYERS,
    "a leaf shared by all": LowRank(LAYERS.a, low_rank().b, 0.5),
    "integers and scales": stack(*[KINDS["quantized"].make(rng(i), (3, 4)) for i in range(3)]),
    "zeros inside": LowRank(Zeros(shape=(3, 3, 2), dtype=jnp.float32), LAYERS.b, 0.5),
    "zeros shared by all": LowRank(Zeros(shape=(3, 2), dtype=jnp.float32), LAYERS.b, 0.5),
    "two batch axes": jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf], 1), LAYERS),
}
I = jnp.int32(1)  # noqa: E741  # an index
ON_BATCH_AXES: dict[str, Any] = {
    "one": lambda v: v[0],
    "the last": lambda v: v[-1],
    "some": lambda v: v[1:],
    "every other": lambda v: v[::2],
    "turned around": lambda v: v[::-1],
    "one, told at run time": lambda v: v[I],
    "several, told at run time": lambda v: v[jnp.array([0, 2])],
    "several in rows": lambda v: v[jnp.array([[0, 1], [1, 2]])],
    "out of bounds, clipped": lambda v: jnp.take(v, jnp.array([0, 5]), axis=0, mode="clip"),
    "some from a place told at run time": lambda v: lax.dynamic_slice_in_dim(v, I, 2, 0),
    "split": lambda v: jnp.split(v, [1]),
    "split by lax": lambda v: lax.split(v, (1, 2), 0),
    "unstacked": lambda v: jnp.unstack(v),
    "a new axis": lambda v: v[None],
    "a new axis between": lambda v: v[:, None],
    "one axis less": lambda v: jnp.squeeze(v[:1], 0),
    "reshaped": lambda v: v.reshape((-1, *v.shape[-2:])),
    "repeated": lambda v: jnp.broadcast_to(v, (2, *v.shape)),
    "each twice": lambda v: jnp.repeat(v, 2, axis=0),
    "rolled": lambda v: jnp.roll(v, 1, axis=0),
    "joined": lambda v: jnp.concatenate([v, v[:1]]),
    "stacked": lambda v: jnp.stack([v, v]),
    "stacked between": lambda v: jnp.stack([v, v], 1),
    "stacked again": lambda v: jnp.stack([v[0], v[1]]),
    "mapped over indices": lambda v: jax.vmap(lambda i: v[i])(jnp.array([0, 2])),
    "chosen": lambda v: jnp.where(jnp.bool_(False), v, v[::-1]),
    "chosen by number": lambda v: lax.select_n(jnp.int32(2), v, v[::-1], v[::-1][::-1]),
}


# What every build of a stack is put through; the first one goes through all.
ALL_KINDS = ["one, told at run time", "several in rows", "a new axis", "joined"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in STACKS
        for name in (ON_BATCH_AXES if kind in ("layers", "zeros inside") else ALL_KINDS)
    ],
)
def test_batch_axes_are_those_of_the_leaves(kind: str, name: str) -> None:
    f, value = ON_BATCH_AXES[name], STACKS[kind]
    with tq.materialization("error", tq.ImplicitArray):
        got = use(f, None)(value)
    assert {type(each) for each in jax.tree.leaves(got, is_leaf=tq.is_implicit)} == {type(value)}
    assert_same(dense(got), f(dense(value)))


def test_a_field_whose_numbers_depend_on_its_shape_is_not_cut() -> None:
    f: Any = lambda v: (v[1], v[1:], jnp.concatenate([v, v]))
    field = Counting(shape=(3, 3, 2), dtype=jnp.float32)
    value = LowRank(field, LAYERS.b, 0.5)
    whole = jnp.einsum("kmr,knr->kmn", 0.5 * field.materialize(), LAYERS.b)
    got = use(f, None)(value)
    assert not any(map(tq.is_implicit, got))
    assert_same(got, f(whole))


def test_one_that_is_taken_whole_at_each_of_many_places_stays_implicit() -> None:
    f: Any = lambda v: jax.vmap(lambda i: lax.dynamic_slice(v, (i, 0), (3, 4)))(jnp.arange(2))
    one = low_rank()
    with tq.materialization("error"):
        got = use(f, None)(one)
    assert_same(dense(got), f(dense(one)))


def test_the_batch_axes_of_two_are_exchanged() -> None:
    value = STACKS["two batch axes"]
    with tq.materialization("error"):
        got = use(lambda v: jnp.swapaxes(v, 0, 1), None)(value)
    assert_same(dense(got), jnp.swapaxes(dense(value), 0, 1))


def test_what_all_of_a_stack_share_stays_shared() -> None:
    shared = STACKS["a leaf shared by all"]
    for name in ("one", "some", "one, told at run time", "joined", "turned around", "stacked"):
        got = use(ON_BATCH_AXES[name], None)(shared)
        assert got.b.shape == (4, 2)


def test_what_is_shared_by_one_and_not_by_the_other_is_repeated_to_be_joined() -> None:
    f: Any = lambda v, u: jnp.concatenate([v, u])
    with tq.materialization("error"):
        got = use(f, None)(STACKS["a leaf shared by all"], LAYERS)
    assert_same(dense(got), f(dense(STACKS["a leaf shared by all"]), dense(LAYERS)))


EVENT_AXES: dict[str, Any] = {
    "rows of each": lambda v: v[:, 0],
    "columns of each": lambda v: v[..., 1:],
    "rows and layers": lambda v: v[0, 1:],
    "turned around": lambda v: jnp.flip(v, 1),
    "an axis behind": lambda v: v[..., None],
    "all flat": lambda v: v.reshape(-1),
    "joined along rows": lambda v: jnp.concatenate([v, v], 1),
    "stacked behind": lambda v: jnp.stack([v, v], -1),
    "axes exchanged": lambda v: jnp.swapaxes(v, 0, 1),
    "out of bounds, filled": lambda v: jnp.take(v, jnp.array([0, 5]), axis=0),
    "rows from a place told at run time": lambda v: lax.dynamic_slice_in_dim(v, I, 1, 1),
    "joined with a dense one": lambda v: jnp.concatenate([v, jnp.ones((1, 3, 4))]),
    "of two static types": lambda v: jnp.stack([v, -v]),
}


@pytest.mark.parametrize("name", EVENT_AXES)
def test_what_looks_at_other_axes_gives_what_it_gives_for_dense_arrays(name: str) -> None:
    assert_agrees(EVENT_AXES[name], LAYERS)


def test_a_layer_is_taken_by_the_index_of_a_loop_without_the_dense_stack() -> None:
    square = numbers(rng(11), 4, 3)

    def f(x: Any, ws: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, x: jnp.tanh((x @ ws[i]) @ square), x)

    with tq.materialization("error"):
        jaxpr = staged(f, X, LAYERS)
        assert_agrees(f, X, LAYERS, way="jit")
    assert not has_dense(jaxpr, (3, 3, 4))
    assert not has_dense(jaxpr, (3, 4))


@pytest.mark.parametrize("name", ["one, told at run time", "stacked again"])
def test_derivatives_in_the_fields_and_in_the_array(name: str) -> None:
    f = ON_BATCH_AXES[name]
    assert_agrees(f, LAYERS, way="grad")
    assert_agrees(jax.grad(lambda v: jnp.sum(jnp.sin(f(v)))), LAYERS)


def test_fields_that_are_stacks_themselves_are_cut_with_the_whole() -> None:
    class Times(tq.ImplicitArray, materialization="allow"):
        inner: Float[tq.ArrayValue, "m n"]
        factor: Float[tq.ArrayValue, ""]

        def materialize(self) -> Any:
            return jnp.multiply(self.factor, self.inner)

    factors = jnp.arange(1.0, 4.0)
    for inner in (LAYERS, STACKS["a leaf shared by all"]):
        with tq.materialization("error"):
            one = use(lambda v: v[I], None)(Times(inner, factors))
            many = use(lambda v: v[::-1], None)(Times(inner, factors))
        assert isinstance(one.inner, LowRank)
        want = dense(inner) * factors[:, None, None]
        assert_same(tq.materialize(one), want[1])
        assert_same(tq.materialize(many), want[::-1])


def test_a_class_without_annotations_becomes_dense() -> None:
    value = Plain(numbers(rng(), 3, 2))
    with pytest.raises(tq.MaterializationError, match="slice"), tq.materialization("error"):
        use(lambda v: v[1:], None)(value)
    assert_agrees(lambda v: (v[1], v[::-1], jnp.stack([v, v])), value, handlers=None)


def test_a_handler_of_a_type_goes_before_what_is_done_for_all() -> None:
    def first(w: LowRank, /, **params: Any) -> Any:
        return jnp.zeros((1, 3, 4))

    table = tq.HandlerTable("first", HANDLERS, ops.slice.to(first))
    assert not np.any(use(lambda v: v[:1], table)(LAYERS))


def test_a_place_that_is_implicit_becomes_a_number() -> None:
    class Index(tq.ImplicitArray, materialization="allow"):
        i: tq.ArrayValue

        def materialize(self) -> Any:
            return self.i

    got = use(lambda v, i: v[i], None)(LAYERS, Index(I))
    assert_same(dense(got), dense(LAYERS)[1])


def test_a_choice_between_arrays_of_other_types_is_one_of_entries() -> None:
    for other in (-1 * numbers(rng(), 3, 3, 4), LowRank(LAYERS.a, LAYERS.b, 2.0)):
        assert_agrees(lambda v, u: lax.select(jnp.bool_(False), v, u), LAYERS, other)
    flags = jnp.arange(36).reshape(3, 3, 4) % 2 == 0
    assert_agrees(lambda v: lax.select(flags, v, v[::-1]), LAYERS)


def test_the_documented_list_is_what_is_there() -> None:
    from typedqax import _stacks

    words = set(
        (_stacks.__doc__ or "").replace("`", " ").replace(",", " ").replace(".", " ").split()
    )
    assert set(_stacks.ON_BATCH_AXES) <= words


def test_shared_leaves_are_not_computed_again() -> None:
    jaxpr = staged(lambda v: v[1:][0], STACKS["a leaf shared by all"])
    assert [eqn.primitive.name for eqn in equations(jaxpr)] == ["slice", "slice", "squeeze"]
