"""equinox: modules with implicit weights, filtered transformations, checkpointed loops."""

from __future__ import annotations

import io
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import pytest
from jax import Array

import typedqax as tq
from tests.third_party.kit import agrees, implicit, lora, numbers, same, zeros
from typedqax.arrays import LoraMatrix

X = numbers(9, 6, 4)


def mlp() -> eqx.nn.MLP:
    """Weights with adapters, a bias without memory, put there by `tree_at`."""
    made = eqx.nn.MLP(4, 3, 8, 1, key=jax.random.key(0))
    weights = [lora(1, 8, 4), lora(5, 3, 8)]
    made = eqx.tree_at(lambda m: [layer.weight for layer in m.layers], made, weights)
    return eqx.tree_at(lambda m: m.layers[0].bias, made, zeros(8))


def loss(model: Any, x: Array = X) -> Array:
    return jnp.mean(jax.vmap(model)(x) ** 2)


def arrays(tree: Any) -> Any:
    return eqx.filter(tree, eqx.is_array)


def expected_gradient(model: Any) -> Any:
    return eqx.filter_grad(lambda m: loss(tq.materialize(m)))(model)


def test_filtered_transformations_outside_take_implicit_weights() -> None:
    model = mlp()
    with tq.materialization("error"):
        value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(implicit(loss)))(model)
    same(value, loss(tq.materialize(model)))
    same(arrays(gradient), arrays(expected_gradient(model)))


def test_filtered_transformations_inside_take_implicit_weights() -> None:
    def values(model: Any) -> Any:
        return (
            eqx.filter_jit(loss)(model),
            eqx.filter_vmap(model)(X),
            arrays(eqx.filter_grad(loss)(model)),
        )

    model = mlp()
    with tq.materialization("error"):
        same(implicit(values)(model), values(tq.materialize(model)))


def test_a_partition_trains_adapters_alone() -> None:
    model = mlp()
    adapters = eqx.tree_at(
        lambda m: [part for layer in m.layers for part in (layer.weight.a, layer.weight.b)],
        jax.tree.map(lambda _: False, model),
        [True] * 4,
    )
    trained, frozen = eqx.partition(model, adapters)
    assert isinstance(trained.layers[0].weight, LoraMatrix)
    assert trained.layers[0].weight.__dict__["w"] is None

    def value(trained: Any, loss: Any) -> Array:
        found: Array = loss(eqx.combine(trained, frozen))
        return found

    with tq.materialization("error"):
        got = eqx.filter_grad(lambda t: value(t, implicit(loss)))(trained)
    same(got, eqx.filter_grad(lambda t: value(t, lambda m: loss(tq.materialize(m))))(trained))


@pytest.mark.parametrize("kind", ["lax", "checkpointed"])
def test_equinox_loops_close_over_a_lora_matrix(kind: str) -> None:
    def looped(w: Array, x: Array) -> Array:
        def step(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            count, x = carry
            return count + 1, jnp.tanh(x @ w)

        start = (jnp.array(0), x)
        return jnp.sum(eqxi.while_loop(lambda c: c[0] < 3, step, start, max_steps=4, kind=kind)[1])

    agrees(looped, lora(1, 4, 4), X, grad=kind != "lax")


def test_a_rule_of_filter_custom_vjp_stays_the_rule() -> None:
    @eqx.filter_custom_vjp
    def layer(model: Any, x: Array) -> Array:
        return jax.vmap(model)(x)

    @layer.def_fwd
    def forward(perturbed: Any, model: Any, x: Array) -> tuple[Array, None]:
        del perturbed
        return layer(model, x), None

    @layer.def_bwd
    def backward(residuals: None, cotangent: Array, perturbed: Any, model: Any, x: Array) -> Any:
        del residuals, perturbed
        _, pull = eqx.filter_vjp(lambda m: jax.vmap(m)(x), model)
        return jax.tree.map(lambda g: 3 * g, pull(cotangent)[0])  # three: not the true gradient

    def value(model: Any) -> Array:
        return jnp.sum(eqx.filter_checkpoint(layer)(model, X) ** 2)

    model = mlp()
    with tq.materialization("error"):
        got = eqx.filter_grad(implicit(value))(model)
    same(arrays(got), arrays(eqx.filter_grad(lambda m: value(tq.materialize(m)))(model)))


def test_error_if_passes_an_implicit_array_on() -> None:
    def checked(w: Array, x: Array) -> Array:
        return jnp.sum(x @ eqx.error_if(w, jnp.any(x > 100), "too large"))

    agrees(
        checked,
        lora(1, 4, 3),
        X,
        dense={"LoraMatrix": {"cond"}},  # the other branch gives an array of a callback
    )
    with tq.materialization("allow"), pytest.raises(Exception, match="too large"):
        eqx.filter_jit(implicit(checked))(lora(1, 4, 3), 1000 + X)


def test_a_model_is_saved_compared_and_shown() -> None:
    model, file = mlp(), io.BytesIO()
    eqx.tree_serialise_leaves(file, model)
    file.seek(0)
    assert eqx.tree_equal(eqx.tree_deserialise_leaves(file, model), model)
    assert "LoraMatrix(w=f32[8,4], a=f32[8,2], b=f32[4,2], alpha=0.5)" in eqx.tree_pformat(model)
