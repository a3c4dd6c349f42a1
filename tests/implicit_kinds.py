"""Implicit arrays of every build, for tests that compare them with what they stand for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Float, Float32, Int8

import typedqax as tq
from typedqax import ops

# --- classes -------------------------------------------------------------------------------------


class Plain(tq.ImplicitArray, materialization="allow"):
    """One leaf, no handlers, no shape annotation."""

    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x


class LowRank(tq.ImplicitArray, materialization="allow"):
    """Two leaves with event ranks; handlers for some products, of which one declines."""

    a: Float[tq.ArrayValue, "m r"]
    b: Float[tq.ArrayValue, "n r"]
    scale: float = tq.aux_field(default=1.0)

    def materialize(self) -> Float[Array, "m n"]:
        return self.scale * (self.a @ self.b.T)


class Zeros(tq.ImplicitArray, materialization="allow"):
    """No leaves but its shape."""

    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


class Const(tq.ImplicitArray, materialization="allow"):
    """One scalar leaf, the shape static."""

    default_dtype = jnp.float32
    value: Float[tq.ArrayValue, ""]

    def materialize(self) -> Array:
        return jnp.broadcast_to(self.value, self.shape)


class Scaled(tq.ImplicitArray, materialization="allow"):
    """A field that may be implicit itself, and a scalar shared by its batch."""

    x: tq.ArrayValue
    factor: Float[tq.ArrayValue, ""]

    def materialize(self) -> Array:
        return self.x * self.factor


class Turned(tq.ImplicitArray, materialization="allow"):
    """A leaf whose slices are not the array's slices; no shape annotation says so."""

    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x.T


class Counting(tq.ImplicitArray, materialization="allow"):
    """No leaves but its shape, on which its numbers depend."""

    def materialize(self) -> Array:
        count = jnp.arange(self.size, dtype=jnp.float32).reshape(self.shape)
        return 0.1 * count / (1 + self.ndim)


class Quantized(tq.ImplicitArray, materialization="allow"):
    """Integer leaves with a scale per row."""

    q: Int8[tq.ArrayValue, "m n"]
    scale: Float32[tq.ArrayValue, "m"]

    def materialize(self) -> Float32[Array, "m n"]:
        return self.q.astype(jnp.float32) * self.scale[:, None]


class Shifted(tq.ImplicitArray, materialization="allow"):
    """A vector and a static shift; every handler declines."""

    v: Float[tq.ArrayValue, "n"]
    shift: int = tq.aux_field(default=1)

    def materialize(self) -> Float[Array, "n"]:
        return jnp.roll(self.v, self.shift)


# --- handlers ------------------------------------------------------------------------------------


def _plain_product(x: Any, dimension_numbers: Any, side: int) -> bool:
    (left, right), batch = dimension_numbers
    contracted = (left, right)[side]
    return bool(batch == ((), ()) and contracted == ((x.ndim - 1,) if side == 0 else (0,)))


def times_low_rank(
    x: Float[Array, "*batch m"],
    w: Float[LowRank, "m n"],
    /,
    *,
    dimension_numbers: Any,
    **params: Any,
) -> Float[Array, "*batch n"] | tq.Declined:
    """x @ w in two thin products."""
    if not _plain_product(x, dimension_numbers, 0) or dimension_numbers[0][1] != (0,):
        return tq.DECLINE
    return (w.scale * (x @ w.a)) @ w.b.T


def transpose_low_rank(
    w: Float[LowRank, "m n"], /, *, permutation: tuple[int, ...]
) -> Float[LowRank, "n m"] | tq.Declined:
    """The factors exchanged."""
    if permutation != (1, 0):
        return tq.DECLINE
    return LowRank(w.b, w.a, w.scale)


def scale_low_rank(w: LowRank, s: Float[Array, ""], /, **params: Any) -> LowRank:
    """One factor scaled."""
    return LowRank(w.a * s, w.b, w.scale)


def negate_low_rank(w: LowRank, /, **params: Any) -> LowRank:
    """The static scale negated: another type to JAX."""
    return LowRank(w.a, w.b, -w.scale)


def zeros_plus(z: Zeros, y: tq.ArrayValue, /) -> tq.ArrayValue | tq.Declined:
    """The other operand, where it has the result's shape."""
    return y if y.shape == z.shape else tq.DECLINE


def zeros_times(z: Zeros, y: tq.ArrayValue, /, **params: Any) -> Zeros:
    """Zeros of the result's shape."""
    return Zeros(shape=jnp.broadcast_shapes(z.shape, y.shape), dtype=z.dtype)


def zeros_through(op: ops.UnaryOp, z: Zeros, /, **params: Any) -> Zeros | tq.Declined:
    """Zeros, for what maps zero to zero and keeps dtype and shape."""
    if op.name not in ("neg", "sin", "tanh", "abs", "square"):
        return tq.DECLINE
    return z


def const_through(op: ops.UnaryOp, c: Const, /, **params: Any) -> Const | tq.Declined:
    """The function of the one number."""
    value = op.bind(c.value, **params)
    if value.dtype != c.dtype:
        return tq.DECLINE
    return Const(value, shape=c.shape)


def scale_scaled(w: Scaled, s: Float[Array, ""], /, **params: Any) -> Scaled:
    """The factor scaled."""
    return Scaled(w.x, w.factor * s)


def negate_scaled(w: Scaled, /) -> Scaled:
    """The inner array negated, by its own handler if it has one."""
    return Scaled(-w.x, w.factor)


def reject(w: Shifted, /, **params: Any) -> Array | tq.Declined:
    """Declines whatever comes."""
    return tq.DECLINE


HANDLERS = tq.HandlerTable(
    "kinds",
    ops.dot_general.to(times_low_rank),
    ops.transpose.to(transpose_low_rank),
    ops.mul.to(scale_low_rank, commutative=True, precedence=1),
    ops.neg.to(negate_low_rank),
    ops.add.to(zeros_plus, commutative=True, precedence=2),
    ops.mul.to(zeros_times, commutative=True, precedence=2),
    ops.elementwise_unary.to(zeros_through),
    ops.elementwise_unary.to(const_through),
    ops.mul.to(scale_scaled, commutative=True, precedence=1),
    ops.neg.to(negate_scaled),
    ops.cumsum.to(reject),
)

# --- making them ---------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Kind:
    """How an implicit array of a kind is made.

    Attributes:
        ranks: the ranks it comes in.
        make: an instance, from numbers and a shape.
        batches: whether its leaves may be stacked, so that vmap and scan outside act on it.
    """

    ranks: tuple[int, ...]
    make: Callable[[np.random.Generator, tuple[int, ...]], Any]
    batches: bool = True


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers of either sign, none of them near zero or one."""
    return jnp.asarray(rng.uniform(0.2, 0.8, shape) * rng.choice([-1, 1], shape), jnp.float32)


KINDS: dict[str, Kind] = {
    "plain": Kind((0, 1, 2), lambda rng, shape: Plain(numbers(rng, *shape))),
    "low_rank": Kind(
        (2,), lambda rng, shape: LowRank(numbers(rng, shape[0], 2), numbers(rng, shape[1], 2), 0.5)
    ),
    "layers": Kind(
        (3,),
        lambda rng, shape: LowRank(
            numbers(rng, *shape[:2], 2), numbers(rng, shape[0], shape[2], 2), 0.5
        ),
    ),
    "layers_of_one_base": Kind(
        (3,),
        lambda rng, shape: LowRank(numbers(rng, *shape[:2], 2), numbers(rng, shape[2], 2), 0.5),
        batches=False,
    ),
    "zeros": Kind((0, 1, 2), lambda _, shape: Zeros(shape=shape, dtype=jnp.float32)),
    "const": Kind((0, 1, 2), lambda rng, shape: Const(numbers(rng), shape=shape), batches=False),
    "scaled": Kind(
        (0, 1, 2), lambda rng, shape: Scaled(numbers(rng, *shape), numbers(rng)), batches=False
    ),
    "scaled_zeros": Kind(
        (0, 1, 2),
        lambda rng, shape: Scaled(Zeros(shape=shape, dtype=jnp.float32), numbers(rng)),
        batches=False,
    ),
    "scaled_low_rank": Kind(
        (2,),
        lambda rng, shape: Scaled(KINDS["low_rank"].make(rng, shape), numbers(rng)),
        batches=False,
    ),
    "turned": Kind((1, 2), lambda rng, shape: Turned(numbers(rng, *shape[::-1])), batches=False),
    "counting": Kind(
        (0, 1, 2), lambda _, shape: Counting(shape=shape, dtype=jnp.float32), batches=False
    ),
    "quantized": Kind(
        (2,),
        lambda rng, shape: Quantized(
            jnp.asarray(rng.integers(-9, 9, shape), jnp.int8), abs(numbers(rng, shape[0])) / 7
        ),
    ),
    "shifted": Kind((1,), lambda rng, shape: Shifted(numbers(rng, *shape), 1)),
}


def dense(tree: Any) -> Any:
    """`tree` with each implicit array materialized by plain JAX, as far as it is nested."""

    def one(leaf: Any) -> Any:
        if not tq.is_implicit(leaf):
            return leaf
        children = {
            field.name: one(getattr(leaf, field.name))
            for field in dataclasses.fields(leaf)
            if not field.name.startswith("_")
        }
        return by_hand(leaf, children)

    return jax.tree.map(one, tree, is_leaf=tq.is_implicit)


def by_hand(leaf: Any, fields: dict[str, Any]) -> Array:
    """The dense array that an implicit one stands for, without the library."""
    match leaf:
        case Plain():
            return jnp.asarray(fields["x"])
        case LowRank():
            product = jnp.einsum("...mr,...nr->...mn", fields["a"], fields["b"])
            return jnp.asarray(fields["scale"] * product)
        case Zeros():
            return lax.full(leaf.shape, 0, leaf.dtype)
        case Const():
            value = fields["value"]
            return jnp.broadcast_to(
                jnp.expand_dims(value, range(value.ndim, leaf.ndim)), leaf.shape
            )
        case Scaled():
            return jnp.asarray(fields["x"] * fields["factor"])
        case Turned():
            return jnp.transpose(fields["x"])
        case Counting():
            size = int(np.prod(leaf.shape))
            whole = np.arange(size, dtype=np.float32).reshape(leaf.shape)
            return jnp.asarray(whole * np.float32(0.1) / np.float32(1 + len(leaf.shape)))
        case Quantized():
            scales = jnp.expand_dims(fields["scale"], -1)
            return jnp.asarray(fields["q"].astype(jnp.float32) * scales)
        case Shifted():
            return jnp.roll(fields["v"], fields["shift"], axis=-1)
    raise TypeError(type(leaf).__name__)
