"""`use_implicit_args` keeps the signature of whatever it transforms."""

# pyright: strict, reportUnknownMemberType=false

import functools
from collections.abc import Callable
from typing import NamedTuple, overload

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float
from typing_extensions import assert_type

import typedqax as tq


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return self.w


class Params(NamedTuple):
    w: Float[Array, "m n"]
    b: Float[Array, "n"]


TABLE = tq.HandlerTable("none")


@tq.use_implicit_args
def forward(params: Params, x: Float[Array, "b m"], *, train: bool = False) -> Float[Array, "b n"]:
    out = x @ params.w + params.b
    return jnp.tanh(out) if train else out


@tq.use_implicit_args(handlers=TABLE, isolated=True)
def isolated(params: Params, x: Array) -> tuple[Array, int]:
    return params.w @ x, 1


@jax.jit
@tq.use_implicit_args
def jitted(x: Array) -> Array:
    return x * 2


def a_function_keeps_its_arguments_and_result(lora: Lora, x: Array) -> None:
    assert_type(forward(Params(lora, x), x, train=True), Array)
    assert_type(isolated(Params(lora, x), x), tuple[Array, int])
    f = tq.use_implicit_args(forward, handlers=TABLE)
    assert_type(f(Params(lora, x), x), Array)
    taken: Callable[[Params, Array], Array] = tq.use_implicit_args(forward)
    assert_type(taken(Params(lora, x), x), Array)
    assert_type(jitted(lora), Array)  # type: ignore[assert-type]  # jit itself gives Any


class Model:
    """A class with a method that is transformed, and one that is passed on transformed."""

    scale: float = 1.0

    @tq.use_implicit_args
    def __call__(self, x: Array, w: Array) -> Array:
        return self.scale * x @ w

    def loss(self, w: Array) -> float:
        return float(w.sum())

    @staticmethod
    @tq.use_implicit_args
    def double(x: Array) -> Array:
        return x * 2

    @classmethod
    @tq.use_implicit_args
    def make(cls, x: Array) -> "Model":
        return cls()


def a_method_keeps_its_self(model: Model, lora: Lora, x: Array) -> None:
    assert_type(model(x, lora), Array)
    assert_type(tq.use_implicit_args(model.loss)(lora), float)
    assert_type(tq.use_implicit_args(model)(x, lora), Array)
    assert_type(tq.use_implicit_args(model).scale, float)
    assert_type(model.double(lora), Array)
    assert_type(Model.make(lora), Model)


@overload
def total(x: Array) -> Array: ...
@overload
def total(x: list[Array]) -> list[Array]: ...
def total(x: Array | list[Array]) -> Array | list[Array]:
    return [v.sum() for v in x] if isinstance(x, list) else x.sum()


def overloads_are_kept(lora: Lora) -> None:
    assert_type(tq.use_implicit_args(total)(lora), Array)
    assert_type(tq.use_implicit_args(total)([lora]), list[Array])


def jaxs_own_functions_take_implicit_arrays(lora: Lora, x: Array) -> None:
    assert_type(tq.use_implicit_args(jnp.sin)(lora), Array)
    assert_type(tq.use_implicit_args(jnp.matmul)(x, lora), Array)
    assert_type(tq.use_implicit_args(jax.nn.relu)(lora), Array)


def partials_too(lora: Lora, x: Array) -> None:
    partial = functools.partial(forward, train=True)
    assert_type(tq.use_implicit_args(partial)(Params(lora, x), x), Array)


def under_and_over_other_transforms(lora: Lora, x: Array) -> None:
    batched = jax.vmap(tq.use_implicit_args(forward))
    assert_type(batched(Params(lora, x), x, train=True), Array)
    over = tq.use_implicit_args(jax.vmap(forward))
    assert_type(over(Params(lora, x), x), Array)


def policies(lora: Lora) -> None:
    with tq.materialization("error"):
        assert_type(forward(Params(lora, lora), lora), Array)
    with tq.installed(TABLE):
        assert_type(forward(Params(lora, lora), lora), Array)
