"""A transformer whose every matrix has LoRA, in each way to have it; for the benchmarks beside."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

import typedqax as tq
from typedqax.arrays import LORA, LoraMatrix

WIDTH, RANK, HEADS = 32, 4, 4
ALPHA = 0.5
MATRICES = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH)} | {
    "up": (WIDTH, 4 * WIDTH),
    "down": (4 * WIDTH, WIDTH),
}

Times = Callable[[Array, Any], Array]
Layer = dict[str, Any]


def normalized(x: Array) -> Array:
    """Of mean zero and variance one along the last axis."""
    x = x - x.mean(-1, keepdims=True)
    return x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5)


def layer_of(times: Times) -> Callable[[Array, Layer], Array]:
    """A transformer's layer, whose products are `times`."""

    def heads(x: Array) -> Array:
        return x.reshape(*x.shape[:-1], HEADS, -1)

    def layer(x: Array, layer: Layer) -> Array:
        y = normalized(x)
        q, k, v = [heads(times(y, layer[name])) for name in ("q", "k", "v")]
        scores = jnp.einsum("bshd,bthd->bhst", q, k) / jnp.sqrt(q.shape[-1])
        scores = jnp.where(jnp.tri(x.shape[1], dtype=bool), scores, -jnp.inf)
        mixed = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)
        x = x + times(mixed.reshape(x.shape), layer["o"])
        return x + times(jax.nn.gelu(times(normalized(x), layer["up"])), layer["down"])

    return layer


def loss_of(layer: Callable[[Array, Layer], Array]) -> Callable[[list[Layer], Array], Array]:
    """The loss of a transformer with such layers."""

    def loss(layers: list[Layer], x: Array) -> Array:
        for params in layers:
            x = layer(x, params)
        return jnp.square(x).mean()

    return loss


def product(x: Array, w: Any) -> Array:
    """The unmodified model's product."""
    result: Array = x @ w
    return result


def by_hand(x: Array, p: dict[str, Array]) -> Array:
    """LoRA, written into the model."""
    return x @ p["w"] + ALPHA * (x @ p["a"]) @ p["b"].T


def adapters(layers: int) -> list[dict[str, dict[str, Array]]]:
    """What is trained."""
    return [
        {n: {"a": jnp.ones((i, RANK)), "b": jnp.ones((o, RANK))} for n, (i, o) in MATRICES.items()}
        for _ in range(layers)
    ]


def bases(layers: int) -> list[dict[str, Array]]:
    """What is not."""
    return [{name: jnp.ones(shape) for name, shape in MATRICES.items()} for _ in range(layers)]


Join = Callable[[Array, dict[str, Array]], Any]
Program = Callable[[], Callable[..., Any]]


def gradient(join: Join, loss: Callable[..., Array]) -> Callable[..., Any]:
    """The gradient in the adapters."""

    def of_adapters(adapters: Any, bases: Any, x: Array) -> Array:
        layers = [
            {name: join(w, adapter[name]) for name, w in base.items()}
            for base, adapter in zip(bases, adapters, strict=True)
        ]
        return loss(layers, x)

    return jax.grad(of_adapters)


def join_by_hand(w: Array, adapter: dict[str, Array]) -> Any:
    """The three arrays, side by side."""
    return adapter | {"w": w}


def join_lora(w: Array, adapter: dict[str, Array]) -> Any:
    """A `LoraMatrix`."""
    return LoraMatrix(w=w, a=adapter["a"], b=adapter["b"], alpha=ALPHA)


def same(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return f


def programs(transformed: Callable[..., Any]) -> dict[str, Program]:
    """Each way to have LoRA, as a maker of a new function, so that JAX has not seen it before.

    Its layers are `transformed`, by jit or checkpoint say.
    """
    made: dict[str, Program] = {
        "by_hand": lambda: gradient(join_by_hand, loss_of(transformed(layer_of(by_hand)))),
        "typedqax": lambda: gradient(
            join_lora, tq.use_implicit_args(loss_of(transformed(layer_of(product))), handlers=LORA)
        ),
    }
    if importlib.util.find_spec("quax") is not None:
        made["quax"] = quax_program(transformed)
    return made


def quax_program(transformed: Callable[..., Any]) -> Program:
    """The same with quax's own example of LoRA."""
    quax: Any = importlib.import_module("quax")
    lora: Any = importlib.import_module("quax.examples.lora")

    def join(w: Array, adapter: dict[str, Array]) -> Any:
        array = object.__new__(lora.LoraArray)
        fields = {"_w": w, "a": adapter["a"], "b": ALPHA * adapter["b"].T}
        for name, value in (fields | {"stop_gradient": False, "allow_materialise": True}).items():
            object.__setattr__(array, name, value)
        return array

    return lambda: gradient(join, quax.quaxify(loss_of(transformed(layer_of(product)))))


def operands_for(layers: int) -> tuple[Any, Any, Array]:
    """What such a gradient is taken of."""
    return adapters(layers), bases(layers), jnp.ones((2, 8, WIDTH))
