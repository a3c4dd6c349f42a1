"""An implicit array where a model says `Array`, and telling the two apart."""

# pyright: strict, reportUnknownMemberType=false

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Shaped
from typing_extensions import assert_type

import typedqax as tq


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]
    rank: int = tq.aux_field(default=4)

    def materialize(self) -> Float[Array, "m n"]:
        return self.w


class Layer(NamedTuple):
    """A model's own container, written before anyone thought of implicit arrays."""

    weight: Float[Array, "m n"]
    bias: Float[Array, "n"]


def apply(layer: Layer, x: Float[Array, "b m"]) -> Float[Array, "b n"]:
    return x @ layer.weight + layer.bias


def norm(x: ArrayLike) -> Array:
    return jnp.sqrt(jnp.sum(jnp.square(x)))


def fits_a_model(lora: Lora, bias: Array, x: Array) -> None:
    assert_type(apply(Layer(lora, bias), x), Array)
    assert_type(norm(lora), Array)
    layers: list[Layer] = [Layer(lora, bias), Layer(x, bias)]
    params: dict[str, Array] = {"w": lora, "b": bias}
    assert_type([apply(layer, params["w"]) for layer in layers], list[Array])


def has_the_operators_and_methods_of_an_array(lora: Lora, x: Array) -> None:
    assert_type(x @ lora, Array)
    assert_type(lora @ x, Array)
    assert_type(2 * lora + x, Array)
    assert_type(-lora, Array)
    assert_type(lora.T, Array)
    assert_type(lora[0], Array)
    assert_type(lora.astype(jnp.bfloat16), Array)
    assert_type(lora.sum(axis=0), Array)
    assert_type(lora.reshape(-1), Array)
    assert_type(lora < x, Array)
    assert_type(jnp.dot(x, lora), Array)
    assert_type(jax.nn.relu(lora), Array)


def can_be_a_field_of_another(lora: Lora) -> Lora:
    return Lora(lora, rank=2)


def can_be_told_apart(x: Array, maybe: Array | None, lora: Lora | Array) -> None:
    if tq.is_implicit(x):
        assert_type(x, tq.ImplicitArray)
        assert_type(x.materialize(), Array)
    else:
        assert_type(x, Array)
    if isinstance(lora, Lora):
        assert_type(lora.rank, int)
    if maybe is not None and not tq.is_implicit(maybe):
        assert_type(maybe, Array)


def can_be_matched(x: Array) -> None:
    match x:
        case Lora(w=w, rank=rank):
            assert_type(w, Array)
            assert_type(rank, int)
        case _:
            assert_type(x, Array)


def implicit_arrays_of(values: list[object]) -> list[tq.ImplicitArray]:
    return [value for value in values if tq.is_implicit(value)]


def any_array_value(value: object) -> Shaped[tq.ArrayValue, "..."]:
    if not isinstance(value, tq.ArrayValue):
        raise TypeError(value)
    assert_type(value, Array)
    return value


def materialized(lora: Lora, layer: Layer, trees: dict[str, Layer], pair: tuple[Lora, int]) -> None:
    """An array becomes some array; any other tree keeps its type."""
    assert_type(tq.materialize(lora), Array)
    assert_type(tq.materialize(layer), Layer)
    assert_type(tq.materialize(trees), dict[str, Layer])
    assert_type(tq.materialize(pair), tuple[Lora, int])


def pass_it_on(f: Callable[[Array], Array], lora: Lora) -> Array:
    return f(lora)
