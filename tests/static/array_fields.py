"""The constructor that fields give a class, with and without an explicit `@dataclass`."""

# pyright: strict, reportUnknownMemberType=false

import copy
import dataclasses
from dataclasses import InitVar, dataclass
from typing import Any, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int
from typing_extensions import assert_type

import typedqax as tq


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]
    alpha: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        return self.w + self.alpha * self.a @ self.b.T


@dataclass
class Decorated(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]
    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]
    alpha: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        return self.w + self.alpha * self.a @ self.b.T


class Constructor(Protocol):
    """What both spellings of the class must take."""

    def __call__(
        self, w: Array, a: Array, b: Array, alpha: float = ..., *, dtype: np.dtype[Any] = ...
    ) -> tq.ImplicitArray: ...


def both_spellings_have_one_constructor() -> list[Constructor]:
    return [Lora, Decorated]


def every_way_to_construct(w: Array, a: Array, b: Array) -> None:
    assert_type(Lora(w, a, b), Lora)
    assert_type(Decorated(w, a, b), Decorated)
    Lora(w, a, b, 0.5)
    Lora(w=w, a=a, b=b, alpha=0.5)
    Lora(w, a, b, shape=(3, 4), dtype=jnp.float32)
    Lora(w, a, b, shape=[3, 4], dtype="bfloat16")
    Lora(w, a, b, shape=w.shape, dtype=w.dtype)
    Lora(w, a, b, shape=None, dtype=np.float32)


def what_an_instance_knows(lora: Lora) -> None:
    assert_type(lora.shape, tuple[int, ...])
    assert_type(lora.dtype, np.dtype[Any])
    assert_type(lora.ndim, int)
    assert_type(lora.size, int)
    assert_type(lora.w, Array)
    assert_type(lora.alpha, float)
    assert_type(lora.materialize(), Array)


def fields_can_be_set_copied_and_replaced(lora: Lora, w: Array) -> Lora:
    lora.alpha = 0.5
    lora.w = w
    assert_type(copy.copy(lora), Lora)
    return dataclasses.replace(lora, w=w, alpha=2.0)


class Rows(tq.ImplicitArray):
    """Auxiliary data of all kinds, with defaults and without."""

    index: Int[Array, "k"]
    length: int = tq.aux_field()
    names: tuple[str, ...] = tq.aux_field(default_factory=tuple)
    strict: bool = tq.aux_field(default=False, kw_only=True, metadata={"doc": "refuse repeats"})
    note: str | None = tq.aux_field(default=None, init=False, repr=False, compare=False)

    def materialize(self) -> Float[Array, "k n"]:
        return jnp.zeros((*self.index.shape, self.length))


def auxiliary_data_keeps_its_types(index: Array) -> None:
    rows = Rows(index, 7, ("a", "b"), strict=True)
    assert_type(rows.length, int)
    assert_type(rows.names, tuple[str, ...])
    assert_type(rows.strict, bool)
    assert_type(rows.note, str | None)


class Quantized(tq.ImplicitArray):
    """Built from the array that it stands for."""

    dense: InitVar[Float[Array, "m n"]]
    scale: Float[Array, "m"] = dataclasses.field(init=False)
    q: Int[Array, "m n"] = dataclasses.field(init=False)

    def __post_init__(self, dense: Array) -> None:
        self.scale = jnp.max(jnp.abs(dense), axis=1) / 127
        self.q = jnp.round(dense / self.scale[:, None]).astype(jnp.int8)

    def materialize(self) -> Float[Array, "m n"]:
        return self.q * self.scale[:, None]


def an_init_var_is_an_argument_and_no_field(dense: Array) -> None:
    quantized = Quantized(dense, shape=(3, 4))
    assert_type(quantized.q, Array)


class Constant(tq.ImplicitArray):
    """A constructor of its own, which hands shape and dtype on."""

    value: float = tq.aux_field()

    def __init__(self, value: float, shape: tuple[int, ...]) -> None:
        super().__init__(shape=shape, dtype=jnp.float32)
        self.value = value

    def materialize(self) -> Array:
        return jnp.full(self.shape, self.value)


def a_hand_written_constructor_is_the_constructor() -> None:
    assert_type(Constant(1.0, (3,)), Constant)


class Named(Lora):
    """Inherits the fields, and adds one."""

    name: str = tq.aux_field(default="", kw_only=True)


@dataclass
class NamedDecorated(Decorated):
    name: str = tq.aux_field(default="", kw_only=True)


def inherited_fields_come_first(w: Array, a: Array, b: Array) -> None:
    assert_type(Named(w, a, b, 0.5, name="q"), Named)
    assert_type(NamedDecorated(w, a, b, 0.5, name="q"), NamedDecorated)
    assert_type(Named(w, a, b).w, Array)


class Zeros(tq.ImplicitArray):
    """No array fields: shape and dtype are given, or the class has its own."""

    default_shape = (3,)
    default_dtype = jnp.bfloat16

    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


class Diagonal(tq.ImplicitArray):
    """Shape and dtype computed from the fields."""

    entries: Float[Array, "n"]

    def compute_shape(self) -> tuple[int, ...]:
        return (self.entries.shape[0], self.entries.shape[0])

    def compute_dtype(self) -> np.dtype[Any]:
        return self.entries.dtype

    def materialize(self) -> Float[Array, "n n"]:
        return jnp.diag(self.entries)


class ListShape(Diagonal):
    """Whatever numpy takes for a shape and a dtype will do."""

    def compute_shape(self) -> tuple[int, int]:
        return (3, 3)


def shape_and_dtype_may_be_left_out(entries: Array) -> None:
    assert_type(Zeros(), Zeros)
    assert_type(Zeros(shape=(), dtype="float32"), Zeros)
    assert_type(Diagonal(entries).compute_shape(), tuple[int, ...])
