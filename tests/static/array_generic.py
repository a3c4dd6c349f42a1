"""Implicit arrays that are generic in what they hold, and bases that leave the rest to others."""

# pyright: strict, reportUnknownMemberType=false

from abc import abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Shaped
from typing_extensions import assert_type

import typedqax as tq


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]
    rank: int = tq.aux_field(default=4)

    def materialize(self) -> Float[Array, "m n"]:
        return self.w


Inner = TypeVar("Inner", bound=Array)


class Scaled(tq.ImplicitArray, Generic[Inner]):
    """A factor times an array of any kind."""

    x: Inner
    factor: Float[Array, ""]

    def materialize(self) -> Array:
        return self.factor * tq.materialize(self.x)


@dataclass
class ScaledDecorated(tq.ImplicitArray, Generic[Inner]):
    x: Inner
    factor: Float[Array, ""]

    def materialize(self) -> Array:
        return self.factor * self.x


class ScaledLora(Scaled[Lora]):
    """The type argument is settled in a subclass."""

    name: str = tq.aux_field(default="", kw_only=True)


def the_inner_type_is_kept(lora: Lora, dense: Array, factor: Array) -> None:
    scaled = Scaled(lora, factor)
    assert_type(scaled, Scaled[Lora])
    assert_type(scaled.x, Lora)
    assert_type(scaled.x.rank, int)
    assert_type(Scaled(dense, factor).x, Array)
    assert_type(ScaledDecorated(lora, factor).x, Lora)
    assert_type(Scaled(Scaled(lora, factor), factor).x.x, Lora)
    assert_type(ScaledLora(lora, factor, name="q").x, Lora)


def a_generic_array_is_an_argument(scaled: Scaled[Lora]) -> Scaled[Lora]:
    return scaled


class Structured(tq.ImplicitArray):
    """An abstract base: its subclasses say how they multiply, and what they are."""

    @abstractmethod
    def times(self, x: Shaped[Array, "n"], /) -> Shaped[Array, "m"]: ...

    @property
    @abstractmethod
    def rank(self) -> int: ...


class Outer(Structured):
    u: Float[Array, "m"]
    v: Float[Array, "n"]

    def times(self, x: Shaped[Array, "n"], /) -> Shaped[Array, "m"]:
        return self.u * jnp.dot(self.v, x)

    @property
    def rank(self) -> int:
        return 1

    def materialize(self) -> Float[Array, "m n"]:
        return jnp.outer(self.u, self.v)


def bases_may_be_abstract(structured: Structured, u: Array) -> None:
    assert_type(structured.times(u), Array)
    assert_type(structured.materialize(), Array)
    assert_type(Outer(u, u), Outer)


class Tagged:
    """A second base that is no implicit array."""

    def tag(self) -> str:
        return type(self).__name__


class TaggedLora(Lora, Tagged):
    pass


def other_bases_can_be_mixed_in(w: Array) -> None:
    assert_type(TaggedLora(w, 8).tag(), str)


class Symbolic(tq.ImplicitArray, commute_ops=False, materialization="error"):
    """The keywords of the class statement."""

    def materialize(self) -> Array:
        return jnp.zeros(self.shape)


class Quiet(tq.ImplicitArray, warn_on_materialize=False):
    def materialize(self) -> Array:
        return jnp.zeros(self.shape)


class MoreQuiet(Quiet, materialization="allow"):
    pass


def class_keywords_are_no_fields() -> None:
    assert_type(Symbolic(shape=(3,)), Symbolic)
    assert_type(MoreQuiet(shape=(3,)), MoreQuiet)
