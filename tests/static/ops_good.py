"""Handlers that are right, of every kind of op, and what ops themselves give."""

# pyright: strict, reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

import jax
import jax.numpy as jnp
from jax import Array, lax
from jaxtyping import Bool, Float, Int, Shaped
from typing_extensions import assert_type

import typedqax as tq
from typedqax import ops
from typedqax._rule import Rule


class Lora(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return jnp.asarray(self.w)


class Other(tq.ImplicitArray):
    w: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return jnp.asarray(self.w)


T = TypeVar("T", bound=tq.ImplicitArray)


# --- two operands: params named, forwarded, ignored or typed as a whole ------------------------


def matmul(
    x: Float[Array, "*b m"],
    w: Float[Lora, "m n"],
    /,
    *,
    dimension_numbers: lax.DotDimensionNumbers,
    **params: Any,
) -> Float[Array, "*b n"] | tq.Declined:
    if dimension_numbers != (((x.ndim - 1,), (0,)), ((), ())):
        return tq.DECLINE
    return ops.dot_general.bind(x, w.w, dimension_numbers=dimension_numbers, **params)


def matmul_precise(
    x: Array,
    w: Lora,
    *,
    dimension_numbers: tuple[
        tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]
    ],
    precision: object,
    preferred_element_type: object,
    out_sharding: object,
) -> Array:
    return x


def matmul_typed(x: Lora, y: Array, /, **params: Unpack[ops.DotGeneralParams]) -> Array:
    return ops.dot_general.bind(x.w, y, **params)


def matmul_ignoring(
    x: Lora, y: Array, *, dimension_numbers: Sequence[Any], **_: object
) -> Array | tq.Declined:
    return tq.DECLINE


def matmul_with_a_default(
    x: Lora, y: Array, *, dimension_numbers: object, precision: object = None, **params: object
) -> Lora:
    return x


def either(x: Lora | Other, y: Shaped[Array | Lora, "..."], /) -> Lora | Other:
    return x


def unannotated_operands_are_any(x: Lora, y: Any) -> Lora:
    return x


def generic(x: T, y: T, /) -> T:
    return x


def always_declines(x: Lora, y: Array) -> tq.Declined:
    return tq.DECLINE


assert_type(ops.dot_general.to(matmul), Rule)
ops.dot_general.to(matmul_precise)
ops.dot_general.to(matmul_typed)
ops.dot_general.to(matmul_ignoring, precedence=2)
ops.dot_general.to(matmul_with_a_default, replace=True)
ops.mul.to(either)
ops.add.to(unannotated_operands_are_any, commutative=True)
ops.sub.to(generic)
ops.max.to(always_declines)


# --- other numbers of operands -------------------------------------------------------------------


def negate(x: Lora, /) -> Lora:
    return Lora(-x.w)


def transpose(w: Float[Lora, "m n"], /, *, permutation: tuple[int, ...]) -> Float[Lora, "n m"]:
    return Lora(ops.transpose.bind(w.w, permutation=permutation))


def exponential(x: Lora, /) -> Array:
    return ops.exp.bind(x.w)


def exponential_to_an_accuracy(x: Lora, /, *, accuracy: object = None) -> Array:
    return ops.exp.bind(x.w, accuracy=lax.AccuracyMode.HIGHEST)


def exponential_typed(x: Lora, /, **params: Unpack[ops.ExpParams]) -> Array:
    return ops.exp.bind(x.w, **params)


def clamp(low: Array, x: Lora, high: Array, /) -> Array:
    return ops.clamp.bind(low, x.w, high)


def scatter_add(
    x: Lora, indices: Int[Array, "..."], updates: Array, /, **params: Unpack[ops.ScatterAddParams]
) -> Array:
    return ops.scatter_add.bind(x.w, indices, updates, **params)


def tridiagonal(dl: Array, d: Lora, du: Array, b: Array, /, *, perturb_singular: bool) -> Array:
    return b


ops.neg.to(negate)
ops.transpose.to(transpose)
ops.exp.to(exponential)
ops.exp.to(exponential_to_an_accuracy)
ops.exp.to(exponential_typed)
ops.clamp.to(clamp)
ops.scatter_add.to(scatter_add)
ops.tridiagonal_solve.to(tridiagonal)
ops.and_.to(either)
ops.not_.to(negate)


# --- any number of operands: `*operands` or a fixed number ---------------------------------------


def join(*parts: Float[Lora, "_ n"], dimension: int) -> Lora:
    return parts[0]


def join_any(*parts: Array, **params: Any) -> Array:
    return ops.concatenate.bind(*parts, **params)


def join_two(x: Lora, y: Array, /, *, dimension: int) -> Lora:
    return x


def join_first(x: Lora, /, *rest: Array, dimension: int) -> Lora:
    return x


def choose(which: Bool[Array, "..."], no: Lora, yes: Lora, /) -> Lora:
    return yes


def choose_any(which: Shaped[Array, "..."], /, *cases: Lora) -> Lora:
    return cases[0]


def block(x: Lora, /, *starts: Int[Array, ""], slice_sizes: tuple[int, ...]) -> Array:
    return ops.dynamic_slice.bind(x.w, *starts, slice_sizes=slice_sizes)


def write(x: Lora, update: Array, /, *starts: Int[Array, ""]) -> Array:
    return ops.dynamic_update_slice.bind(x.w, update, *starts)


ops.concatenate.to(join)
ops.concatenate.to(join_any)
ops.concatenate.to(join_two)
ops.concatenate.to(join_first)
ops.select_n.to(choose)
ops.select_n.to(choose_any)
ops.dynamic_slice.to(block)
ops.dynamic_update_slice.to(write)


# --- several results -----------------------------------------------------------------------------


def largest(x: Lora, /, *, k: int, axis: int) -> list[Array] | tq.Declined:
    return ops.top_k.bind(x.w, k=k, axis=axis) if k else tq.DECLINE


def factors(x: Lora, /) -> tuple[Lora, Array, Array]:
    _, pivots, permutation = ops.lu.bind(x.w)
    return x, pivots, permutation


def together(*xs: Lora, dimension: int, is_stable: bool, num_keys: int) -> Sequence[Lora]:
    return xs


def cut(x: Lora, /, *, axis: int, sizes: tuple[int, ...]) -> list[Lora]:
    return [x for _ in sizes]


ops.top_k.to(largest)
ops.lu.to(factors)
ops.sort.to(together)
ops.split.to(cut)


# --- groups: the handler is given the op first ---------------------------------------------------


def scale(op: ops.BinaryOp, w: Lora, s: Float[Array, ""], /, **params: Any) -> Lora:
    return Lora(op.bind(w.w, s, **params))


def plus(op: ops.AnyOp, x: Lora, y: Lora, /) -> Lora:
    return x


def each(op: ops.UnaryOp, x: Lora, /, **params: Any) -> Lora:
    return Lora(op.bind(x.w, **params))


def reduce(op: ops.UnaryOp, x: Lora, /, *, axes: tuple[int, ...], **params: Any) -> Array:
    return op.bind(x.w, axes=axes, **params)


def accumulate(op: ops.UnaryOp, x: Lora, /, *, axis: int, reverse: bool) -> Array:
    return op.bind(x.w, axis=axis, reverse=reverse)


def whatever(op: ops.AnyOp, /, *operands: Any, **params: Any) -> Array | list[Array]:
    return op.bind(*operands, **params)


def scatter_any(
    op: ops.TernaryOp, x: Lora, i: Array, u: Array, /, **params: Unpack[ops.ScatterParams]
) -> Array:
    return op.bind(x.w, i, u, **params)


assert_type((ops.mul | ops.div).to(scale, precedence=1), Rule)
(ops.exp | ops.neg | ops.sqrt).to(each)
(ops.add | ops.sub | ops.max).to(plus)
((ops.add | ops.sub) | (ops.max | ops.min)).to(plus, commutative=True)
(ops.reduce_sum | ops.reduce_max).to(reduce)
(ops.scatter_add | ops.scatter_mul).to(scatter_any)
ops.elementwise_unary.to(each)
ops.elementwise_binary.to(scale)
ops.reductions.to(reduce)
ops.cumulative.to(accumulate)
ops.structural.to(each)
ops.any_primitive.to(whatever)
ops.UnaryGroup[...]("moves", ops.reshape, ops.rev).to(each)
ops.MixedGroup("joins", ops.concatenate, ops.stack, ops.pad).to(whatever)

TABLE = tq.HandlerTable("lora", ops.neg.to(negate), (ops.mul | ops.div).to(scale))


# --- what ops give -------------------------------------------------------------------------------


def results(x: Array, w: Lora, numbers: lax.DotDimensionNumbers) -> None:
    assert_type(ops.neg.bind(w), Array)
    assert_type(ops.dot_general.bind(x, w, dimension_numbers=numbers), Array)
    assert_type(ops.dot_general.bind(x, w, dimension_numbers=numbers, precision=None), Array)
    assert_type(ops.mul.bind(x, 2.0), Array)
    assert_type(ops.mul.bind(x, 2.0, out_dtype=None), Array)
    assert_type(ops.concatenate.bind(x, w, x, dimension=0), Array)
    assert_type(ops.top_k.bind(w, k=2, axis=0), list[Array])
    assert_type(ops.iota.bind(dtype=jnp.dtype("int32"), shape=(3,), dimension=0), Array)
    assert_type(ops.dot_general.out_aval(x, w, dimension_numbers=numbers), jax.ShapeDtypeStruct)
    assert_type(ops.exp.out_aval(jax.ShapeDtypeStruct((3,), jnp.float32)), jax.ShapeDtypeStruct)
    assert_type(ops.lu.out_aval(w), list[jax.ShapeDtypeStruct])
    assert_type(ops.add.name, str)
    assert_type(ops.add.params, tuple[str, ...])
    assert_type(ops.find("add"), ops.AnyOp | None)
    for op in ops.mul | ops.div:
        assert_type(op.bind(x, w), Array)
    for unary in ops.elementwise_unary:
        assert_type(unary.bind(w), Array)


def handlers_keep_their_types(x: Array, w: Lora) -> None:
    assert_type(negate(w), Lora)
    assert_type(transpose(w, permutation=(1, 0)), Lora)
    assert_type(largest(w, k=2, axis=0), list[Array] | tq.Declined)
