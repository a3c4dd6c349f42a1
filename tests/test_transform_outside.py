"""Other transformations outside this one: jit, vmap, scan and map of transformed functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import typedqax as tq
from tests.implicit_world import (
    CASES,
    TABLE,
    LoraMatrix,
    Zeros,
    close,
    numbers,
)
from tests.transformed_functions import CUSTOM, LEFT, SAME, implicit, loss
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


# --- jit ------------------------------------------------------------------------------------------


def test_jit_compiles_once_for_arrays_of_one_type() -> None:
    traced = []

    @jax.jit
    @tq.use_implicit_args(handlers=TABLE)
    def f(w: Array) -> Array:
        traced.append(1)
        return LEFT @ w

    for seed in range(3):
        value, dense = CASES["lora"].both(seed)
        close(f(value), LEFT @ dense)
    assert len(traced) == 1
    f(dense)
    assert len(traced) == 2


def test_static_arguments_stay_static() -> None:
    value, dense = CASES["lora"].both()

    @functools.partial(jax.jit, static_argnums=1, static_argnames="times")
    def f(w: Array, axis: int, *, times: int) -> Array:
        assert type(axis) is type(times) is int
        return jnp.sum(w, axis=axis) * float(times)

    close(implicit(f)(value, 1, times=3), dense.sum(axis=1) * 3.0)
    outside = jax.jit(implicit(lambda w, axis: jnp.sum(w, axis=axis)), static_argnums=1)
    close(outside(value, 0), dense.sum(axis=0))


def test_a_jitted_function_given_implicit_arrays_keeps_its_structure() -> None:
    value, _ = CASES["lora"].both()

    @jax.jit
    def layer(x: Array, w: Array) -> Array:
        return x @ w

    jaxpr = jax.make_jaxpr(implicit(lambda x, w: layer(x, w)))(LEFT, value)
    (eqn,) = jaxpr.eqns
    assert eqn.primitive.name == "jit"
    assert eqn.params["name"] == "layer"
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns].count("dot_general") == 3


@pytest.mark.parametrize("inside", [True, False], ids=["jit inside", "jit outside"])
def test_donation_is_kept_for_every_leaf(inside: bool) -> None:
    value, dense = CASES["lora"].both()
    f: Callable[..., Any] = lambda w, x: (w * 2.0, x + 1.0)
    donating = (
        implicit(jax.jit(f, donate_argnums=0)) if inside else jax.jit(implicit(f), donate_argnums=0)
    )
    result, x = donating(value, SAME)
    close(tq.materialize(result), dense * 2.0)
    close(x, SAME + 1.0)
    assert value.w.is_deleted()
    assert value.a.is_deleted()
    assert not SAME.is_deleted()


def test_jit_inside_jit_inside_the_transform_agrees() -> None:
    value, dense = CASES["nested"].both()
    f = jax.jit(lambda w: jax.jit(lambda v: LEFT @ v)(w * 2.0) + 1.0)
    close(jax.jit(implicit(f))(value), f(dense))


def test_a_jitted_function_can_be_lowered_and_compiled_with_implicit_arrays() -> None:
    value, dense = CASES["lora"].both()
    f = jax.jit(implicit(lambda w: LEFT @ w))
    close(f.lower(value).compile()(value), LEFT @ dense)
    g = implicit(jax.jit(lambda w: LEFT @ w))
    close(g.lower(value).compile()(value), LEFT @ dense)  # type: ignore[attr-defined]  # of jit


def test_eval_shape_tells_the_shape_without_computing() -> None:
    value, _ = CASES["lora"].both()
    out = jax.eval_shape(implicit(lambda w: LEFT @ w), value)
    assert (out.shape, out.dtype) == ((2, 4), jnp.float32)
    kept = jax.eval_shape(implicit(lambda w: w.T), value)
    assert type(kept) is LoraMatrix
    assert kept.shape == (4, 3)


def test_disabled_jit_gives_the_same() -> None:
    value, dense = CASES["nested"].both()
    with jax.disable_jit():
        close(implicit(jax.jit(loss))(value), loss(dense))


def test_handlers_that_become_installed_are_seen_through_a_jitted_function() -> None:
    class Local(tq.ImplicitArray, materialization="allow"):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            return self.x

    def negate(v: Local, /) -> Local:
        return Local(v.x * -1.0)

    inner = jax.jit(lambda x: -x)
    f = tq.use_implicit_args(inner)
    value = Local(SAME)
    assert not tq.is_implicit(f(value))
    with tq.installed(tq.HandlerTable("later", ops.neg.to(negate))):
        assert type(f(value)) is Local
    assert not tq.is_implicit(f(value))


# --- vmap -----------------------------------------------------------------------------------------

AXES = {
    "all fields": CASES["lora"].build(0, 0, 0),
    "the update": CASES["lora"].build(None, 0, 0),
    "one field": CASES["lora"].build(None, 0, None),
}


@pytest.mark.parametrize("axes", AXES.values(), ids=AXES.keys())
def test_vmap_outside_maps_the_fields_that_it_is_told(axes: LoraMatrix) -> None:
    shapes = {"w": (3, 4), "a": (3, 2), "b": (4, 2)}
    leaves = [
        numbers(i, *((5,) if getattr(axes, n) is not None else ()), *shapes[n])
        for i, n in enumerate(shapes)
    ]
    spec = tuple(getattr(axes, n) for n in shapes)

    def one(w: Array, a: Array, b: Array) -> Array:
        return jnp.tanh(LEFT @ (w + 0.5 * a @ b.T))

    seen = []

    def f(w: Array) -> Array:
        seen.append(w.shape)
        return jnp.tanh(LEFT @ w)

    got = jax.vmap(implicit(f), in_axes=(axes,))(CASES["lora"].build(*leaves))
    close(got, jax.vmap(one, in_axes=spec)(*leaves))
    assert seen == [(3, 4)]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_vmap_outside_takes_any_axis_of_the_leaves(axis: int) -> None:
    stack = [CASES["lora"].make(seed) for seed in (0, 10, 20)]
    leaves = [jnp.stack([s[i] for s in stack], axis=axis) for i in range(3)]
    mapped = CASES["lora"].build(*leaves) if axis == 0 else _unchecked(LoraMatrix, leaves)
    got = jax.vmap(implicit(lambda w: LEFT @ w), in_axes=axis)(mapped)
    close(got, jnp.stack([LEFT @ CASES["lora"].meaning(*s) for s in stack]))


def _unchecked(cls: Any, leaves: Any) -> Any:
    _, tree = jax.tree.flatten(cls(*[None] * len(leaves), 0.5), is_leaf=lambda x: x is None)
    return jax.tree.unflatten(tree, leaves)


def test_vmap_of_a_leafless_array_maps_its_shape() -> None:
    z = Zeros(shape=(5, 3), dtype=jnp.float32)
    y = numbers(1, 5, 3)
    seen = []

    def f(z: Array, y: Array) -> Array:
        seen.append(z.shape)
        return z + y

    got = jax.vmap(implicit(f))(z, y)
    assert seen == [(3,)]
    close(got, y)
    assert jax.vmap(implicit(f), in_axes=(None, 0))(
        Zeros(shape=(3,), dtype=jnp.float32), y
    ).shape == (5, 3)


def test_an_implicit_result_of_vmap_is_stacked() -> None:
    stack = [CASES["lora"].make(seed) for seed in (0, 10)]
    leaves = [jnp.stack([s[i] for s in stack]) for i in range(3)]
    got = jax.vmap(implicit(lambda w: w.T * 2.0))(CASES["lora"].build(*leaves))
    assert type(got) is LoraMatrix
    assert got.shape == (2, 4, 3)
    close(tq.materialize(got), jnp.stack([2.0 * CASES["lora"].meaning(*s).T for s in stack]))
    z = jax.vmap(implicit(lambda z: -z))(Zeros(shape=(5, 3), dtype=jnp.float32))
    assert type(z) is Zeros
    assert z.shape == (5, 3)


def test_nested_vmap_outside_peels_one_batch_axis_each() -> None:
    leaves = [numbers(i, 2, 5, *s) for i, s in enumerate([(3, 4), (3, 2), (4, 2)])]
    f: Callable[..., Any] = lambda w: jnp.sin(LEFT @ w)
    got = jax.vmap(jax.vmap(implicit(f)))(CASES["lora"].build(*leaves))
    close(got, jax.vmap(jax.vmap(lambda *v: f(lora_dense(*v))))(*leaves))


def lora_dense(w: Array, a: Array, b: Array) -> Array:
    return w + 0.5 * a @ b.T


NUMBERED = {name: f for name, f in CUSTOM.items() if "true one" in name or "results" in name}


@pytest.mark.parametrize("f", NUMBERED.values(), ids=NUMBERED.keys())
def test_vmap_outside_keeps_custom_rules(f: Callable[..., Any]) -> None:
    leaves = [numbers(i, 2, *s) for i, s in enumerate([(3, 4), (3, 2), (4, 2)])]

    def gradient(g: Callable[..., Any]) -> Callable[..., Any]:
        return jax.vmap(
            jax.grad(lambda w: sum((jnp.sum(x) for x in jax.tree.leaves(g(w))), jnp.zeros(())))
        )

    got = gradient(implicit(f))(CASES["lora"].build(*leaves))
    expected = gradient(lambda leaves: f(lora_dense(*leaves)))(tuple(leaves))
    close(tuple(jax.tree.leaves(got)), expected)


def test_scan_outside_over_stacked_arrays_sees_one_at_a_time() -> None:
    leaves = [numbers(i, 5, *s) for i, s in enumerate([(4, 4), (4, 2), (4, 2)])]
    stacked = CASES["lora"].build(*leaves)
    x = numbers(9, 2, 4)

    def step(x: Array, w: Array) -> tuple[Array, Array]:
        out = jnp.tanh(implicit(lambda x, w: x @ w)(x, w))
        return out, out.sum()

    def dense_step(x: Array, leaves: Any) -> tuple[Array, Array]:
        out = jnp.tanh(x @ lora_dense(*leaves))
        return out, out.sum()

    close(lax.scan(step, x, stacked), lax.scan(dense_step, x, tuple(leaves)))


def test_scan_outside_over_a_leafless_array_slices_its_shape() -> None:
    seen = []

    def step(c: Array, z: Any) -> tuple[Array, Any]:
        seen.append(z.shape)
        return implicit(jnp.add)(c, z), z

    carry, stacked = lax.scan(step, jnp.ones(3), Zeros(shape=(5, 3), dtype=jnp.float32))
    assert set(seen) == {(3,)}
    close(carry, jnp.ones(3))
    assert type(stacked) is Zeros
    assert stacked.shape == (5, 3)


def test_map_outside_gives_the_same_as_inside() -> None:
    leaves = [numbers(i, 5, *s) for i, s in enumerate([(3, 4), (3, 2), (4, 2)])]
    f: Callable[..., Any] = lambda w: LEFT @ w
    got = lax.map(implicit(f), CASES["lora"].build(*leaves))
    close(got, jnp.stack([f(lora_dense(*v)) for v in zip(*leaves, strict=True)]))


def test_slicing_the_leaves_of_a_stack_gives_one_of_it() -> None:
    leaves = [numbers(i, 5, *s) for i, s in enumerate([(3, 4), (3, 2), (4, 2)])]
    one = jax.tree.map(lambda leaf: leaf[2], CASES["lora"].build(*leaves))
    assert one.shape == (3, 4)
    close(implicit(lambda w: LEFT @ w)(one), LEFT @ lora_dense(*[leaf[2] for leaf in leaves]))


def test_an_event_axis_that_was_sliced_is_a_shape_error_at_first_use() -> None:
    value = LoraMatrix(numbers(0, 4, 4), numbers(1, 4, 2), numbers(2, 4, 2))
    with pytest.raises(tq.ShapeError) as caught:
        jax.vmap(implicit(lambda w: w * 2.0))(value)
    assert str(caught.value) == (
        "LoraMatrix.w has shape (4,), which is 1 axis, but its annotation names 2. An axis that "
        "the annotation names was taken away from outside, by slicing, vmap, scan or map over the "
        "fields. Index the LoraMatrix itself under use_implicit_args, or map an axis in front of "
        "the 2 that it names."
    )
