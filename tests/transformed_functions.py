"""Functions of an array, and their transforms: what the law of the transform is tested with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import typedqax as tq
from tests.implicit_world import (
    TABLE,
    numbers,
)

LEFT, RIGHT, SAME = numbers(20, 2, 3), numbers(21, 4, 2), numbers(22, 3, 4)


def implicit(f: Callable[..., Any]) -> Callable[..., Any]:
    """The transform of `f`, with the handlers of the tests' own table."""
    return tq.use_implicit_args(f, handlers=TABLE)


def half_square(x: Array) -> Array:
    """x², but its own rule says that its derivative is 5."""
    return x * x


wrong_jvp = jax.custom_jvp(half_square)
wrong_jvp.defjvp(lambda primals, tangents: (half_square(*primals), 5.0 * tangents[0]))

wrong_vjp = jax.custom_vjp(half_square)
wrong_vjp.defvjp(lambda x: (half_square(x), x), lambda x, ct: (7.0 * ct + 0.0 * x,))


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def wrong_jvp_two(x: Array, power: int, y: Array) -> tuple[Array, Array]:
    return x**power, x * y


@wrong_jvp_two.defjvp
def wrong_jvp_two_rule(power: int, primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return wrong_jvp_two(x, power, y), (2.0 * dx, 11.0 * dx + 13.0 * dy)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def wrong_vjp_two(power: int, x: Array, y: Array) -> tuple[Array, Array]:
    return x**power, x * y


def wrong_vjp_two_fwd(power: int, x: Array, y: Array) -> Any:
    return (x**power, x * y), (x, jnp.cos(y))


def wrong_vjp_two_bwd(power: int, residuals: Any, cts: Any) -> Any:
    x, cos_y = residuals
    first, second = cts
    return power * first + 17.0 * second * cos_y, 19.0 * second * x


wrong_vjp_two.defvjp(wrong_vjp_two_fwd, wrong_vjp_two_bwd)

CUSTOM: dict[str, Callable[[Array], Any]] = {
    "relu": jax.nn.relu,
    "relu6": jax.nn.relu6,
    "softplus": jax.nn.softplus,
    "silu": jax.nn.silu,
    "logaddexp": lambda w: jnp.logaddexp(w, SAME),
    "logaddexp of itself": lambda w: jnp.logaddexp(SAME, w * w),
    "jvp not the true one": wrong_jvp,
    "vjp not the true one": wrong_vjp,
    "jvp, two results": lambda w: wrong_jvp_two(w, 2, SAME),
    "jvp, second operand": lambda w: wrong_jvp_two(SAME, 3, w),
    "vjp, two results": lambda w: wrong_vjp_two(2, w, SAME),
    "vjp, second operand": lambda w: wrong_vjp_two(3, SAME, w),
    "vjp of both": lambda w: wrong_vjp_two(2, w, w),
    "jvp in checkpoint": jax.checkpoint(wrong_jvp),
    "vjp in jit": jax.jit(wrong_vjp),
    "jvp in jit": jax.jit(lambda w: wrong_jvp(w * 2.0)),
    "vjp under vmap": jax.vmap(wrong_vjp),
    "jvp under vmap": jax.vmap(wrong_jvp),
}

FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "x @ w": lambda w: LEFT @ w,
    "w @ x": lambda w: w @ RIGHT,
    "x @ w.T": lambda w: RIGHT.T @ w.T,
    "w @ w.T": lambda w: w @ w.T,
    "x * w + w": lambda w: SAME * w + w,
    "w / 2 - 1": lambda w: w / 2.0 - 1.0,
    "-w": lambda w: -w,
    "w ** 2": lambda w: w**2,
    "tanh": jnp.tanh,
    "sum": lambda w: w.sum(),
    "mean over axis": lambda w: w.mean(axis=0, keepdims=True),
    "softmax": jax.nn.softmax,
    "einsum": lambda w: jnp.einsum("bm,mn->bn", LEFT, w),
    "einsum of three": lambda w: jnp.einsum("bm,mn,nk->kb", LEFT, w, RIGHT),
    "einsum, batched": lambda w: jnp.einsum("mn,mn->m", w, SAME),
    "einsum, trace": lambda w: jnp.einsum("mn,mn->", w, w),
    "tensordot": lambda w: jnp.tensordot(w, SAME, axes=((0,), (0,))),
    "vdot": lambda w: jnp.vdot(w, SAME),
    "w[0]": lambda w: w[0],
    "w[1:, ::2]": lambda w: w[1:, ::2],
    "w[..., None]": lambda w: w[..., None],
    "w[indices]": lambda w: w[jnp.array([2, 0])],
    "w[mask]": lambda w: jnp.where(SAME > 0, w, 0.0),
    "x[i] of a dense": lambda w: SAME[jnp.array([0, 1])] + w[:2],
    "at set": lambda w: w.at[0].set(1.0),
    "at add": lambda w: w.at[1, 2].add(SAME[0, 0]),
    "at multiply": lambda w: w.at[:, 1].multiply(2.0),
    "at of a dense": lambda w: SAME.at[0].set(w[1]),
    "at get": lambda w: w.at[5, :].get(mode="fill", fill_value=7.0),
    "concatenate": lambda w: jnp.concatenate([w, SAME, w], axis=1),
    "stack": lambda w: jnp.stack([w, SAME]),
    "pad": lambda w: jnp.pad(w, 1),
    "reshape": lambda w: w.reshape(2, 6),
    "split": lambda w: jnp.split(w, 2, axis=1),
    "sort": lambda w: jnp.sort(w, axis=1),
    "argmax": lambda w: jnp.argmax(w, axis=1),
    "astype": lambda w: w.astype(jnp.bfloat16),
    "isfinite": jnp.isfinite,
    "compare": lambda w: w > SAME,
    "cumsum": lambda w: jnp.cumsum(w, axis=0),
    "linalg": lambda w: jnp.linalg.norm(w),
    "stop_gradient": lax.stop_gradient,
    "shape": lambda w: jnp.zeros(w.shape, w.dtype) + w.size * w.ndim,
    "where": lambda w: jnp.where(w > 0, w, SAME),
    "clip": lambda w: jnp.clip(w, -1.0, 1.0),
    "cond": lambda w: lax.cond(SAME[0, 0] > 0, lambda v: v * 2.0, lambda v: -v, w),
    "scan": lambda w: lax.scan(lambda c, row: (c + row, row * 2.0), jnp.zeros(4), w),
    "while": lambda w: lax.fori_loop(0, 3, lambda i, c: c * 0.5 + w, jnp.zeros((3, 4))),
    "checkpoint": jax.checkpoint(lambda w: jnp.sin(LEFT @ w)),
    "map": lambda w: lax.map(lambda row: row * 2.0, w),
    "inner jit": jax.jit(lambda w: jnp.sin(w) @ RIGHT),
    "inner grad": jax.grad(lambda w: jnp.sum(jnp.tanh(LEFT @ w))),
    "inner value_and_grad": jax.value_and_grad(lambda w: jnp.sum(w * w)),
    "inner vmap": lambda w: jax.vmap(lambda row: row @ RIGHT)(w),
    "inner vmap, second axis": lambda w: jax.vmap(jnp.sum, in_axes=1)(w),
    "inner jvp": lambda w: jax.jvp(jnp.sin, (w,), (SAME,)),
    "inner vjp": lambda w: jax.vjp(lambda v: LEFT @ v, w)[1](numbers(23, 2, 4)),
    "inner jacobian": lambda w: jax.jacfwd(lambda s: jnp.sum(w * s))(2.0),
    **CUSTOM,
}


def loss(w: Array) -> Array:
    """Of a little network, with a matrix on both sides."""
    return jnp.sum(jnp.tanh(LEFT @ w) @ (w.T @ SAME[:, :2]) * 0.5)
