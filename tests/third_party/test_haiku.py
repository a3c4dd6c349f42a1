"""haiku: transformed functions with implicit parameters."""

from __future__ import annotations

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
from jax import Array

from tests.third_party.kit import agrees, numbers, zeros
from typedqax.arrays import LoraMatrix

X = numbers(9, 6, 4)
KEY = jax.random.key(0)


def with_lora(params: Any) -> Any:
    def replaced(path: tuple[Any, ...], leaf: Array) -> Any:
        if path[-1].key != "w":
            return zeros(*leaf.shape)
        *stack, m, n = leaf.shape
        return LoraMatrix(leaf, numbers(1, *stack, m, 2), numbers(2, *stack, n, 2), alpha=0.5)

    return jax.tree_util.tree_map_with_path(replaced, params)


def test_a_layer_stack_of_checkpointed_layers_keeps_lora_matrices() -> None:
    def network(x: Array) -> Array:
        def layer(x: Array) -> Array:
            return hk.remat(lambda x: x + jnp.tanh(hk.Linear(4)(x)))(x)

        stacked: Array = hk.experimental.layer_stack(3)(layer)(hk.Linear(4)(x))
        return stacked

    model = hk.without_apply_rng(hk.transform(network))
    agrees(lambda p: jnp.mean(model.apply(p, X) ** 2), with_lora(model.init(KEY, X)))


def test_state_and_recurrence_keep_lora_matrices() -> None:
    def network(x: Array) -> Array:
        core = hk.LSTM(5)
        y, _ = hk.dynamic_unroll(core, jnp.stack([x, x]), core.initial_state(6))
        hk.set_state("calls", hk.get_state("calls", (), init=jnp.zeros) + 1)
        return y.sum()

    model = hk.transform_with_state(network)
    params, state = model.init(KEY, X)
    agrees(lambda p: model.apply(p, state, KEY, X)[0], with_lora(params))


def test_lifted_control_flow_keeps_lora_matrices() -> None:
    def network(x: Array) -> Array:
        linear = hk.Linear(4)
        y: Array = linear(x)
        if hk.running_init():
            return y.sum()
        y = hk.cond(y.sum() > 0, linear, lambda y: y, y)
        y = hk.fori_loop(0, 2, lambda _, y: jnp.tanh(linear(y)), y)
        total, rows = hk.scan(lambda carry, row: (carry + 1.0, linear(row)), 0.0, y)
        inner = hk.grad(lambda y: linear(y).sum())(y)
        return total + rows.sum() + inner.sum()

    model = hk.without_apply_rng(hk.transform(network))
    params = with_lora(model.init(KEY, X))
    agrees(lambda p: model.apply(p, X), params, grad=False)
