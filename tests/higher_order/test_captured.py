"""Handlers that close over tracers: what they captured is an operand of what is rewritten."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax
from jax.custom_batching import sequential_vmap
from jax.sharding import PartitionSpec

import typedqax as tq
from tests.agreement import X, assert_same
from tests.implicit_kinds import Plain
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks

Cosine = Callable[[Any], Any]


def with_jvp(w: Any, cos: Cosine) -> Any:
    f = jax.custom_jvp(lambda w: cos(w))
    f.defjvp(lambda primals, tangents: (cos(primals[0]), 2 * tangents[0]))
    return f(w)


def scanned(w: Any, cos: Cosine) -> Any:
    def step(carry: Any, _: None) -> Any:
        return carry + jnp.sum(cos(w)), cos(w)

    return lax.scan(step, jnp.float32(0), None, length=2)


def looped(w: Any, cos: Cosine) -> Any:
    """The handler runs in the condition too."""

    def go_on(state: Any) -> Any:
        return (state[0] < 3) & (jnp.sum(cos(w)) < 1e6)

    def step(state: Any) -> Any:
        return state[0] + 1, state[1] + cos(w)

    return lax.while_loop(go_on, step, (0, jnp.zeros((2, 3))))[1]


def solved(w: Any, cos: Cosine) -> Any:
    def times(x: Any) -> Any:
        return x * (2.0 + cos(w)[0] ** 2)

    def divide(f: Any, b: Any) -> Any:
        return b / f(jnp.ones(3))

    return lax.custom_linear_solve(times, jnp.ones(3), divide, divide)


def with_vjp(w: Any, cos: Cosine) -> Any:
    f = jax.custom_vjp(lambda w: cos(w))
    f.defvjp(lambda w: (cos(w), w), lambda w, ct: (2 * ct * cos(w),))
    return f(w)


def forward_dropped(w: Any, cos: Cosine) -> Any:
    """The forward pass of the rule may be taken back to the function (`optimize_remat`)."""
    f = jax.custom_vjp(lambda x, w: x * cos(w))
    f.defvjp(
        lambda x, w: (x * cos(w), w), lambda w, ct: (2 * ct * cos(w), w * 0), optimize_remat=True
    )
    return jax.checkpoint(lambda x: f(x, w))(jnp.ones((2, 3)))


def sharded(w: Any, cos: Cosine) -> Any:
    mesh = jax.make_mesh((1,), ("i",))
    whole = PartitionSpec()
    return jax.shard_map(lambda w: cos(w), mesh=mesh, in_specs=(whole,), out_specs=whole)(w)


PROGRAMS: dict[str, Callable[[Any, Cosine], Any]] = {
    "jit": lambda w, cos: jax.jit(lambda w: cos(w) * 2)(w),
    "jit, inlined": lambda w, cos: jax.jit(lambda w: cos(w) * 2, inline=True)(w),
    "jit in jit": lambda w, cos: jax.jit(lambda w: jax.jit(lambda w: cos(w))(w) + 1)(w),
    "cond": lambda w, cos: lax.cond(
        jnp.sum(w) > 0, lambda w: cos(w), lambda w: 2 * cos(w) + cos(w), w
    ),
    "switch": lambda w, cos: lax.switch(
        jnp.int32(1), [lambda w: w * 1, lambda w: cos(w), lambda w: -cos(w)], w
    ),
    "scan": scanned,
    "while": looped,
    "fori": lambda w, cos: lax.fori_loop(0, 2, lambda _, c: c + cos(w), jnp.zeros((2, 3))),
    "checkpoint": lambda w, cos: jax.checkpoint(lambda w: jnp.sin(cos(w)))(w),
    "jit in checkpoint": lambda w, cos: jax.checkpoint(lambda w: jax.jit(lambda w: cos(w))(w) ** 2)(
        w
    ),
    "jit in scan": lambda w, cos: lax.scan(
        lambda c, _: (c, jax.jit(lambda w: cos(w))(w)), 0, None, length=2
    )[1],
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "remat_opt": forward_dropped,
    "shard_map": sharded,
    "custom_vmap": lambda w, cos: sequential_vmap(lambda w: cos(w))(w),
    "linear_solve": solved,
    "linear_call": lambda w, cos: jax.custom_derivatives.linear_call(
        lambda w, x: x * cos(w), lambda w, ct: ct * cos(w), w, jnp.ones((2, 3))
    ),
    "vmap": lambda w, cos: jax.vmap(lambda row: cos(row))(w),
    "grad": lambda w, cos: jax.grad(lambda t: jnp.sum(jax.jit(lambda w: cos(w))(w) * t))(2.0),
}


def gradient(f: Any) -> Any:
    return jax.grad(lambda s: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(f(s))))(1.5)


WAYS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: jax.jit(f)(1.5),
    "jvp": lambda f: jax.jvp(f, (1.5,), (1.0,)),
    "grad": gradient,
    "jit of grad": lambda f: jax.jit(lambda: gradient(f))(),
    "grad of jit": lambda f: gradient(jax.jit(f)),
    "vmap": lambda f: jax.vmap(f)(jnp.array([1.5, -0.5])),
}

REVERSE = {"grad", "jit of grad", "grad of jit"}
REFUSED = {
    "while": REVERSE,
    "custom_jvp": REVERSE | {"jvp"},
    "custom_vjp": REVERSE | {"jvp"},
    "remat_opt": REVERSE | {"jvp"},
    "custom_vmap": REVERSE | {"vmap"},
    "linear_call": REVERSE | {"jvp", "vmap"},
}
"""What JAX does not do of dense arrays either."""


def implicit(name: str) -> Callable[[Any], Any]:
    def f(s: Any) -> Any:
        def cosine(w: Plain, /) -> Array:
            return jnp.asarray(jnp.cos(w.x) * s)

        table = tq.HandlerTable("cosine", ops.cos.to(cosine))
        return tq.use_implicit_args(lambda w: PROGRAMS[name](w, jnp.cos), handlers=table)(Plain(X))

    return f


def dense(name: str) -> Callable[[Any], Any]:
    return lambda s: PROGRAMS[name](X, lambda w: jnp.cos(w) * s)


@functools.cache
def known(name: str, way: str) -> Any:
    return WAYS[way](dense(name))


@pytest.mark.parametrize(
    ("name", "way"),
    [(name, way) for name in PROGRAMS for way in WAYS if way not in REFUSED.get(name, ())],
)
def test_what_a_handler_closes_over_is_differentiated_and_mapped(name: str, way: str) -> None:
    # JAX's gradient of dense arrays is the same under `jit`.
    assert_same(WAYS[way](implicit(name)), known(name, "grad" if way in REVERSE else way))


@pytest.mark.parametrize(
    ("name", "way"), [(name, way) for name in REFUSED for way in sorted(REFUSED[name])]
)
def test_what_jax_does_not_do_of_dense_arrays_is_an_error(name: str, way: str) -> None:
    errors = []
    for program in (dense(name), implicit(name)):
        with pytest.raises(Exception, match=r".") as caught:
            WAYS[way](program)
        errors.append(caught.type)
    assert errors[0] is errors[1] or errors[0] is AssertionError  # of JAX's own


@pytest.mark.parametrize("way", ["jit", "jit of grad"])
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - REFUSED.keys()))
def test_nothing_leaks_that_a_handler_closes_over(name: str, way: str) -> None:
    with jax.checking_leaks():
        assert_same(WAYS[way](implicit(name)), WAYS[way](dense(name)))


def test_handlers_that_are_gone_with_what_they_closed_over_are_asked_for() -> None:
    @jax.jit
    def layer(w: Any, s: Any) -> Any:
        def cosine(w: Plain, /) -> Array:
            return jnp.asarray(jnp.cos(w.x) * s)

        table = tq.HandlerTable("made inside", ops.cos.to(cosine))
        return tq.use_implicit_args(lambda w: jnp.cos(w), handlers=table)(w)

    layer(X, 2.0)
    gc.collect()
    with pytest.raises(tq.UsageError) as caught:
        tq.use_implicit_args(layer)(Plain(X), 2.0)
    assert str(caught.value) == (
        "cos meets an implicit array where the handlers of 'made inside' decide, but that table is "
        "gone with the function that made it. A handler of it closes over a tracer of that "
        "function: pass the handler what it needs as an operand, or a field of its class."
    )
