"""e3nn-jax: constants under `ensure_compile_time_eval`, while implicit arrays are traced."""

from __future__ import annotations

from typing import Any

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp
import pytest
from jax import Array

from tests.third_party.kit import agrees, lora, numbers, zeros
from typedqax.arrays import LoraMatrix

IRREPS = e3nn.Irreps("2x0e+1x1o")


@pytest.mark.parametrize(
    ("x", "dense"),
    [
        pytest.param(lora(2, 3, 5), {"LoraMatrix": {"reshape"}}, id="lora"),
        pytest.param(zeros(3, 5), {}, id="zeros"),
    ],
)
def test_a_tensor_product_of_implicit_features(x: Any, dense: dict[str, set[str]]) -> None:
    def squared(x: Array) -> Array:
        features = e3nn.IrrepsArray(IRREPS, x)
        return jnp.sum(e3nn.tensor_product(features, features).array ** 2)

    agrees(squared, x, dense=dense, grad=bool(dense))


def test_an_equivariant_layer_keeps_lora_matrices() -> None:
    layer: Any = e3nn.flax.Linear("4x0e+2x1o")
    x = e3nn.IrrepsArray(IRREPS, numbers(1, 3, 5))

    def with_adapter(w: Array) -> LoraMatrix:
        m, n = w.shape
        return LoraMatrix(w, numbers(1, m, 1), numbers(2, n, 1))

    params = jax.tree.map(with_adapter, layer.init(jax.random.key(0), x))
    agrees(lambda params: jnp.sum(layer.apply(params, x).array ** 2), params)
