"""Handing a call on, from inside a handler, and the decorator of the first generation."""

# pyright: strict, reportUnknownMemberType=false

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.core import Primitive
from jaxtyping import Float
from typing_extensions import assert_type

import typedqax as tq
from typedqax import ops


class Zeros(tq.ImplicitArray, commute_ops=False):
    default_dtype = jnp.float32

    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


class Tagged(Zeros):
    """A zero that says where it came from; most handlers of Zeros will do."""

    tag: str = tq.aux_field(default="")


def multiply(x: Tagged, y: Float[Array, "..."], /, **params: Any) -> Array:
    """As for its base class, with nothing lost of the types."""
    return tq.default_handler(ops.mul, x, y, **params)


def largest(x: Tagged, /, *, k: int, **params: Any) -> list[Array]:
    return tq.default_handler(ops.top_k, x, k=k, **params)


def any_op(op: ops.BinaryOp, x: Tagged, y: Array, /, **params: Any) -> Array:
    return tq.default_handler(op, x, y, **params)


TABLE = tq.HandlerTable("tagged", ops.mul.to(multiply), (ops.add | ops.sub).to(any_op))


@tq.primitive_handler("mul")
def by_name(primitive: Primitive, x: Zeros, y: Array, /, **params: Any) -> Zeros:
    return x


@tq.primitive_handler(["add", "sub"], precedence=1)
def by_names(primitive: Primitive, x: Zeros, y: Zeros, /, **params: Any) -> Zeros:
    return x


@tq.primitive_handler(ops.div)
def by_op(primitive: Any, x: Zeros, y: Array, /, **params: Any) -> Array | tq.Declined:
    return x if y.ndim else tq.DECLINE


@tq.primitive_handler([ops.max, ops.min])
def by_ops(primitive: Primitive, x: Zeros, y: Array, /, **params: Any) -> Array:
    return tq.default_handler(primitive, x, y, **params)


@tq.primitive_handler(jax.lax.neg_p)
def by_primitive(primitive: Any, x: Zeros, /, **params: Any) -> Zeros:
    return x


def a_decorated_handler_keeps_its_types(x: Zeros, y: Array) -> None:
    assert_type(by_name(ops.mul.primitive, x, y), Zeros)
    assert_type(by_names(ops.add.primitive, x, x), Zeros)
    assert_type(by_op(None, x, y), Array | tq.Declined)
    assert_type(by_primitive(None, x), Zeros)


def a_declined_result_is_told_apart(x: Zeros, y: Array) -> Array:
    result = by_op(None, x, y)
    if result is tq.DECLINE:
        return y
    assert_type(result, Array)
    return result


def tables_are_installed_and_declared_together() -> None:
    tq.install(TABLE)
    tq.uninstall(TABLE)
    with tq.installed(TABLE):
        pass
    with tq.declaring():
        tq.install(TABLE)
    both = tq.HandlerTable("both", TABLE, ops.neg.to(negate))
    assert_type(both, tq.HandlerTable)


def negate(x: Zeros, /) -> Zeros:
    return x


def every_error_is_one_of_ours(x: Zeros) -> tuple[int, ...]:
    try:
        return x.shape
    except tq.UninitializedAval as error:
        assert_type(error, tq.UninitializedAval)
        raise
    except (tq.SignatureError, tq.AmbiguityError, tq.DuplicateHandlerError):
        raise
    except (tq.ContractError, tq.ShapeError, tq.MaterializationError) as error:
        base: tq.TypedQaxError = error
        raise base from None
