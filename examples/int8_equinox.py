"""An unmodified equinox MLP runs on int8 weights.

The claim: when each weight of a trained `eqx.nn.MLP` is replaced by an `Int8Matrix`, the model's
own code runs on it. Its weights take a quarter of the memory, none of them becomes a dense matrix
of floats outside the product it is in, and the model is as good as before. Gradients flow through
the int8 weights to the biases, so these can be tuned afterwards.
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

import typedqax as tq
from typedqax.arrays import INT8, Int8Matrix

try:
    import equinox as eqx
    import optax
except ImportError as error:
    sys.exit(f"int8_equinox.py: {error.msg}; it is in the extra: pip install 'typedqax[examples]'")

POINTS = jnp.linspace(-3, 3, 256)[:, None]
VALUES = jnp.sin(2 * POINTS)


def loss(model: eqx.nn.MLP) -> Float[Array, ""]:
    """The mean squared error of the model as a sine."""
    return jnp.mean((jax.vmap(model)(POINTS) - VALUES) ** 2)


def trained(steps: int) -> eqx.nn.MLP:
    """An ordinary model after ordinary training."""
    model = eqx.nn.MLP(1, 1, width_size=64, depth=2, key=jax.random.key(0))
    optimizer = optax.adam(3e-3)

    @eqx.filter_jit
    def step(model: eqx.nn.MLP, state: Any) -> tuple[eqx.nn.MLP, Any]:
        updates, state = optimizer.update(eqx.filter_grad(loss)(model), state)
        return eqx.apply_updates(model, updates), state

    state = optimizer.init(eqx.filter(model, eqx.is_array))
    for _ in range(steps):
        model, state = step(model, state)
    return model


def weights(model: eqx.nn.MLP) -> list[Array]:
    """The matrices of the model."""
    return [layer.weight for layer in model.layers]


def with_int8(model: eqx.nn.MLP) -> eqx.nn.MLP:
    """The model with each of its matrices replaced by an int8 one."""
    # An equinox layer computes `weight @ x`: one scale for all entries of a row is exact there.
    small = [Int8Matrix.quantize(w, axis=1) for w in weights(model)]
    quantized: eqx.nn.MLP = eqx.tree_at(weights, model, small)
    return quantized


def nbytes(model: eqx.nn.MLP) -> int:
    """The memory of the matrices of a model."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(weights(model)))


def main() -> None:
    """Quantize a trained model and run it as it is."""
    model = trained(steps=800)
    small = with_int8(model)

    int8_loss = tq.use_implicit_args(loss, handlers=INT8)

    with tq.materialization("error"):
        before, after = loss(model), eqx.filter_jit(int8_loss)(small)

    print(f"weights: {nbytes(model):,} -> {nbytes(small):,} bytes")
    print(f"loss: {before:.5f} -> {after:.5f}")
    assert nbytes(small) < 0.3 * nbytes(model)
    assert before < 0.01
    assert after < 0.02

    biases = [layer.bias for layer in model.layers]

    def loss_of_biases(biases: list[Array]) -> Float[Array, ""]:
        tuned = eqx.tree_at(lambda m: [layer.bias for layer in m.layers], small, biases)
        return int8_loss(tuned)

    with tq.materialization("error"):
        grads = jax.grad(loss_of_biases)(biases)
        better = loss_of_biases([b - 1e-3 * g for b, g in zip(biases, grads, strict=True)])
    assert better < after


if __name__ == "__main__":
    main()
