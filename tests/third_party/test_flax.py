"""flax, linen and nnx: layers, lifted transformations and states with implicit parameters."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx, serialization, traverse_util
from flax.training.train_state import TrainState
from jax import Array

import typedqax as tq
from tests.third_party.kit import agrees, implicit, lora, numbers, same, zeros
from typedqax.arrays import Int8Matrix, LoraMatrix

X = numbers(9, 6, 4)


def with_lora(params: Any) -> Any:
    """Every kernel with an adapter that says something, and every bias without memory."""

    def replaced(path: tuple[Any, ...], leaf: Array) -> Any:
        *stack, m, n = (0, 0, *leaf.shape)[-max(2, leaf.ndim) :]
        if path[-1].key == "kernel":
            return LoraMatrix(leaf, numbers(1, *stack, m, 2), numbers(2, *stack, n, 2), alpha=0.5)
        return zeros(*leaf.shape) if path[-1].key == "bias" else leaf

    return jax.tree_util.tree_map_with_path(replaced, params)


def with_int8(params: Any) -> Any:
    """Every kernel in bytes."""

    def quantized(w: Array) -> Int8Matrix:
        return Int8Matrix.quantize(w, axis=0)

    def replaced(path: tuple[Any, ...], leaf: Array) -> Any:
        if path[-1].key != "kernel":
            return leaf
        return quantized(leaf) if leaf.ndim == 2 else jax.vmap(quantized)(leaf)

    return jax.tree_util.tree_map_with_path(replaced, params)


# --- linen ---------------------------------------------------------------------------------------


class Block(nn.Module):
    @nn.compact
    def __call__(self, x: Array) -> tuple[Array, None]:
        hidden = nn.gelu(nn.Dense(8)(nn.LayerNorm()(x)))
        return x + nn.Dense(x.shape[-1])(hidden), None


class Looped(nn.Module):
    """The same block, one after the other, each checkpointed."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        for _ in range(2):
            x, _ = nn.remat(Block)()(x)
        return x


class Scanned(nn.Module):
    """The same block in a scan, each step checkpointed."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        block = nn.remat(Block, prevent_cse=False, policy=jax.checkpoint_policies.dots_saveable)
        layers = nn.scan(block, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        x, _ = layers()(x)
        return x


class Lstm(nn.Module):
    @nn.compact
    def __call__(self, x: Array) -> Any:
        return nn.RNN(nn.LSTMCell(5))(x[None])


class Branching(nn.Module):
    """One layer under cond and while."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        layer = nn.Dense(4, name="layer")
        layer(x)  # makes its parameters before they are read in a branch
        x = nn.cond(x.sum() > 0, lambda module, x: layer(x), lambda module, x: 2 * x, self, x)
        _, x = nn.while_loop(
            lambda module, carry: carry[0] < 3,
            lambda module, carry: (carry[0] + 1, jnp.tanh(layer(carry[1]))),
            self,
            (0, x),
            broadcast_variables="params",
        )
        return x


@pytest.mark.parametrize(
    ("module", "convert", "grad"),
    [
        pytest.param(Looped(), with_lora, True, id="remat-lora"),
        pytest.param(Scanned(), with_lora, True, id="scan_of_remat-lora"),
        pytest.param(Scanned(), with_int8, True, id="scan_of_remat-int8"),
        pytest.param(Lstm(), with_lora, True, id="lstm-lora"),
        pytest.param(Branching(), with_lora, False, id="cond_and_while-lora"),
    ],
)
def test_linen_modules_never_make_their_kernels_dense(
    module: nn.Module, convert: Callable[[Any], Any], grad: bool
) -> None:
    params = convert(module.init(jax.random.key(0), X))

    def value(params: Any) -> Array:
        return jnp.mean(module.apply(params, X) ** 2)

    agrees(value, params, grad=grad, tolerance=1e-4)


def test_linen_makes_a_weight_norm_of_the_dense_kernel() -> None:
    module = nn.WeightNorm(nn.Dense(3))
    params = with_lora(module.init(jax.random.key(0), X))
    agrees(
        lambda params: jnp.mean(module.apply(params, X) ** 2),
        params,
        dense={"LoraMatrix": {"mul"}},
        tolerance=1e-4,
    )


def test_a_train_state_holds_implicit_parameters() -> None:
    module = Block()
    params = with_lora(module.init(jax.random.key(0), X))

    def stepped(apply: Callable[..., Any]) -> TrainState:
        state = TrainState.create(apply_fn=apply, params=params, tx=optax.adam(1e-2))

        @jax.jit
        def step(state: TrainState) -> TrainState:
            gradient = jax.grad(lambda p: jnp.mean(state.apply_fn(p, X)[0] ** 2))(state.params)
            return state.apply_gradients(grads=gradient)

        return step(step(state))

    with tq.materialization("error"):
        got = stepped(implicit(module.apply))
    expected = stepped(lambda params, x: module.apply(tq.materialize(params), x))
    same(got.params, expected.params, tolerance=1e-4)


def test_a_kernel_in_a_partitioned_box_is_found_there() -> None:
    init = nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model"))
    module = nn.Dense(3, kernel_init=init)
    boxed = module.init(jax.random.key(0), X)
    kernel = boxed["params"]["kernel"]
    boxed["params"]["kernel"] = kernel.replace_boxed(lora(1, 4, 3))
    agrees(lambda params: jnp.sum(module.apply(params, X)), boxed)


def test_parameters_survive_what_flax_does_with_trees() -> None:
    params = with_lora(Block().init(jax.random.key(0), X))
    flat = traverse_util.flatten_dict(params)
    assert isinstance(flat["params", "Dense_0", "kernel"], LoraMatrix)
    assert traverse_util.unflatten_dict(flat).keys() == params.keys()
    # msgpack knows no classes: what is saved are the leaves, by their paths.
    leaves = {jax.tree_util.keystr(path): x for path, x in jax.tree.leaves_with_path(params)}
    back = serialization.from_bytes(leaves, serialization.to_bytes(leaves))
    again = jax.tree.structure(params).unflatten([back[name] for name in leaves])
    same(again, params)
    same(pickle.loads(pickle.dumps(params)), params)


# --- nnx -----------------------------------------------------------------------------------------


class Mlp(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.second = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.second(nnx.relu(self.first(x)))


def model() -> Mlp:
    made = Mlp(nnx.Rngs(0))
    made.first.kernel.set_value(lora(1, 4, 8))
    made.first.bias.set_value(zeros(8))
    return made


def test_nnx_splits_and_merges_a_model_with_implicit_parameters() -> None:
    graph, state = nnx.split(model())
    agrees(lambda state: jnp.mean(nnx.merge(graph, state)(X) ** 2), state)


def test_nnx_jit_and_grad_take_a_model_with_implicit_parameters() -> None:
    with tq.materialization("error"):
        got = nnx.jit(implicit(lambda m, x: m(x)))(model(), X)
        gradient = nnx.grad(implicit(lambda m: jnp.mean(m(X) ** 2)))(model())
    graph, state = nnx.split(model())
    same(got, nnx.merge(graph, tq.materialize(state))(X))
    expected = jax.grad(lambda s: jnp.mean(nnx.merge(graph, tq.materialize(s))(X) ** 2))(state)
    for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


def test_nnx_scans_checkpointed_layers_with_implicit_parameters() -> None:
    class Layer(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(4, 4, rngs=rngs)

        def __call__(self, x: Array) -> Array:
            return x + nnx.relu(self.linear(x))

    @nnx.vmap
    def layers(rngs: nnx.Rngs) -> Layer:
        return Layer(rngs)

    @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
    @nnx.remat
    def forward(layer: Layer, x: Array) -> Array:
        return layer(x)

    graph, state = nnx.split(layers(nnx.Rngs(0).split(3)))
    state = nnx.State(
        {
            "linear": {
                "kernel": state["linear"]["kernel"].replace(
                    LoraMatrix(numbers(1, 3, 4, 4), numbers(2, 3, 4, 2), numbers(3, 3, 4, 2))
                ),
                "bias": state["linear"]["bias"].replace(zeros(3, 4)),
            }
        }
    )
    agrees(lambda state: jnp.mean(forward(nnx.merge(graph, state), X) ** 2), state)
