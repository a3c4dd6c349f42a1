"""What an implicit array that was closed over, or made in the function, is to JAX's functions."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax.example_libraries import optimizers
from jaxtyping import Float

import typedqax as tq
from tests.agreement import X, assert_same, low_rank, use
from tests.implicit_kinds import HANDLERS, LowRank, Plain, Zeros, dense
from typedqax import _jax, ops

# --- as the array it stands for -------------------------------------------------------------------


@jax.custom_jvp
def squared(w: Any) -> Any:
    return w * w


@squared.defjvp
def squared_jvp(primals: Any, tangents: Any) -> Any:
    (w,), (t,) = primals, tangents
    return w * w, 2 * w * t


@jax.custom_vjp
def cubed(w: Any) -> Any:
    return w**3


cubed.defvjp(lambda w: (w**3, w), lambda w, ct: (3 * w * w * ct,))


def loss(x: Any, w: Any) -> Any:
    return jnp.sum(jnp.sin(x @ w) ** 2)


AS_ONE_ARRAY: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda x, w: jax.grad(loss, 1)(x, w),
    "value_and_grad": lambda x, w: jax.value_and_grad(lambda w: loss(x, w))(w),
    "grad of both": lambda x, w: jax.grad(loss, (0, 1))(x, w),
    "grad, has_aux": lambda x, w: jax.grad(lambda w: (loss(x, w), x), has_aux=True)(w),
    "grad in a dict": lambda x, w: jax.grad(lambda p: loss(x, p["w"]))({"w": w})["w"],
    "grad of grad": lambda x, w: jax.grad(lambda w: jnp.sum(jax.grad(loss, 1)(x, w) ** 2))(w),
    "vjp": lambda x, w: jax.vjp(lambda w: jnp.sin(x @ w), w)[1](jnp.ones((2, 4)))[0],
    "linearize": lambda x, w: jax.linearize(lambda w: loss(x, w), w)[0],
    "linear_transpose": lambda x, w: jax.linear_transpose(lambda w: x @ w, w)(jnp.ones((2, 4)))[0],
    "vmap over rows": lambda x, w: jax.vmap(lambda row: jnp.sin(row).sum())(w),
    "vmap over columns": lambda x, w: jax.vmap(lambda col: x @ col, in_axes=1, out_axes=1)(w),
    "vmap, not mapped": lambda x, w: jax.vmap(lambda row, w: row @ w, in_axes=(0, None))(x, w),
    "vmap of grad": lambda x, w: jax.vmap(jax.grad(lambda row: jnp.sin(row).sum()))(w),
    "psum": lambda x, w: jax.vmap(lambda row: row.sum() * lax.psum(w, "i"), axis_name="i")(x),
    "pmean": lambda x, w: jax.vmap(lambda row: row.sum() * lax.pmean(w, "i"), axis_name="i")(x),
    "custom_jvp": lambda x, w: jax.grad(lambda s: jnp.sum(squared(w) * s))(2.0),
    "custom_vjp": lambda x, w: jax.grad(lambda s: jnp.sum(cubed(w) * s))(2.0),
}
"""Programs of JAX's own functions whose answer by the fields would be another one."""

PLACES: dict[str, Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]] = {
    "jit": lambda f: lambda x, w: jax.jit(lambda x: f(x, w))(x),
    "scan": lambda f: lambda x, w: lax.scan(lambda c, _: (c, f(x, w)), 0, None, length=2)[1],
    "cond": lambda f: lambda x, w: lax.cond(x[0, 0] > -9, lambda: f(x, w), lambda: f(2 * x, w)),
    "grad": lambda f: (
        lambda x, w: jax.grad(
            lambda s: sum(jnp.sum(leaf) for leaf in jax.tree.leaves(f(s * x, w)))
        )(1.5)
    ),
    "vmap": lambda f: lambda x, w: jax.vmap(lambda s: f(s * x, w))(jnp.arange(2.0)),
    "checkpoint": lambda f: lambda x, w: jax.checkpoint(lambda x: f(x, w))(x),
}


def closed_over(f: Callable[[Any, Any], Any], w: Any) -> Callable[[Any], Any]:
    return lambda x: f(x, w)


def made_inside(f: Callable[[Any, Any], Any], w: Any) -> Callable[[Any], Any]:
    return lambda x: f(x, LowRank(w.a, w.b, w.scale) if isinstance(w, LowRank) else w)


WAYS = {"closed over": closed_over, "made inside": made_inside}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", AS_ONE_ARRAY)
def test_to_jax_it_is_the_array_it_stands_for(name: str, way: str) -> None:
    w = low_rank()
    f = AS_ONE_ARRAY[name]
    with tq.materialization("allow"):
        got = use(WAYS[way](f, w))(X)
    assert_same(got, f(X, dense(w)))


@pytest.mark.without_leak_checks
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["grad", "vmap over rows", "psum", "custom_jvp"])
def test_in_inner_functions_too(name: str, place: str) -> None:
    w = low_rank()
    f = PLACES[place](AS_ONE_ARRAY[name])
    with tq.materialization("allow"):
        got = use(closed_over(f, w))(X)
    assert_same(got, f(X, dense(w)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", AS_ONE_ARRAY)
def test_beside_an_implicit_argument_it_is_the_same_and_nothing_leaks(name: str, way: str) -> None:
    w = low_rank()
    f = AS_ONE_ARRAY[name]
    with tq.materialization("allow"):
        got = tq.materialize(jax.jit(use(WAYS[way](f, w)))(Plain(X)))
    assert_same(got, f(X, dense(w)))


class Turned(tq.ImplicitArray, materialization="allow"):
    """Its annotations do not tell a batch axis."""

    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x.T


RESULTS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "jvp": lambda build: jax.jvp(build, (2.0,), (1.0,)),
    "jvp, tangent": lambda build: jax.jvp(build, (2.0,), (1.0,))[1].sum(),
    "linearize": lambda build: jax.linearize(build, 2.0)[1](1.0).sum(),
    "vjp, value": lambda build: jax.vjp(build, 2.0)[0],
    "vmap": lambda build: jax.vmap(build)(jnp.arange(3.0)).sum(0),
    "vmap of jvp": lambda build: jax.vmap(lambda t: jax.jvp(build, (t,), (1.0,)))(jnp.arange(3.0)),
    "grad through jit": lambda build: jax.grad(lambda t: jnp.sum(jax.jit(build)(t) * 3.0))(2.0),
    "jvp of aux": lambda build: jax.jvp(lambda t: (t, build(2.0)), (2.0,), (1.0,), has_aux=True)[2],
}

BUILDS: dict[str, Callable[[Any], Any]] = {
    "annotated": lambda t: LowRank(t * low_rank().a, low_rank().b, 1.0),
    "not annotated": lambda t: Turned(t * X),
    "of what is no argument": lambda t: low_rank(),
}


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_of_a_function_that_jax_calls_is_one_array_too(name: str, build: str) -> None:
    make = BUILDS[build]
    for argument in (X, Plain(X)):
        with tq.materialization("allow"):
            got = use(lambda x: RESULTS[name](make))(argument)
        assert_same(tq.materialize(got), RESULTS[name](lambda t: tq.materialize(make(t))))


@pytest.mark.parametrize("build", ["annotated", "not annotated"])
def test_the_cotangent_of_a_rule_is_that_of_the_array(build: str) -> None:
    make = BUILDS[build]

    def f(x: Any, make: Any) -> Any:
        rule = jax.custom_vjp(lambda t: make(t))
        rule.defvjp(lambda t: (make(t), ()), lambda _, ct: (ct.sum(),))
        return jax.grad(lambda t: (rule(t) * 3.0).sum())(2.0)

    for argument in (X, Plain(X)):
        with tq.materialization("allow"):
            got = use(lambda x: f(x, make))(argument)
        assert_same(got, f(X, lambda t: tq.materialize(make(t))))


@pytest.mark.parametrize("way", WAYS)
def test_by_one_that_depends_on_what_is_differentiated_outside_of_it(way: str) -> None:
    w = low_rank()

    def f(a: Any, x: Any, build: Callable[[Any], Any]) -> Any:
        inner = jax.grad(loss, 1)(x, build(a))
        return jnp.sum(inner**2) + loss(x, build(2 * a))

    def implicit(a: Any) -> Any:
        run = use(lambda x: f(a, x, lambda a: LowRank(a, w.b, w.scale)), HANDLERS)
        return run(X)

    with tq.materialization("allow"):
        got = jax.grad(implicit)(w.a)
    assert_same(got, jax.grad(lambda a: f(a, X, lambda a: dense(LowRank(a, w.b, w.scale))))(w.a))


SQUARES = jax.tree.map(
    lambda *leaves: jnp.stack(leaves), *map(functools.partial(low_rank, 3, 3), (0, 1, 2))
)

OTHER_AXES: dict[str, Callable[[Any], Any]] = {
    "in": lambda stack: jax.vmap(lambda w: w @ w, in_axes=1)(stack),
    "in, last": lambda stack: jax.vmap(lambda w: w @ w, in_axes=-1)(stack),
    "out": lambda stack: jax.vmap(lambda w: 2.0 * w, out_axes=1)(stack),
    "out, made inside": lambda stack: jax.vmap(lambda t: t * stack[0], out_axes=1)(jnp.arange(3.0)),
}


@pytest.mark.parametrize("name", OTHER_AXES)
def test_along_other_axes_it_is_mapped_as_the_array(name: str) -> None:
    f = OTHER_AXES[name]
    with tq.materialization("allow"):
        got = use(lambda x: f(SQUARES), PRODUCT)(X)
    assert_same(tq.materialize(got), f(tq.materialize(SQUARES)))


def product(x: Float[Array, "*b m"], w: Float[LowRank, "m n"], /, **params: Any) -> Array:
    return jnp.asarray((x @ w.a) @ w.b.T * w.scale)


PRODUCT = tq.HandlerTable("product", ops.dot_general.to(product))


def test_a_stack_is_mapped_by_its_leaves() -> None:
    layers = [low_rank(seed=seed) for seed in range(3)]
    stack = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
    with tq.materialization("error"):
        got = use(lambda x: jax.vmap(lambda w: x @ w)(stack), PRODUCT)(X)
    assert_same(got, jnp.stack([X @ dense(w) for w in layers]))


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "vjp", "vmap, not mapped"])
def test_where_the_function_itself_runs_nothing_becomes_dense(name: str) -> None:
    w = low_rank()
    with tq.materialization("error"):
        got = use(closed_over(AS_ONE_ARRAY[name], w), HANDLERS)(X)
    assert_same(got, AS_ONE_ARRAY[name](X, dense(w)))


@pytest.mark.parametrize("place", sorted(PLACES.keys() - {"grad"}))  # that has transposed products
def test_its_operators_run_the_handlers_in_inner_functions_too(place: str) -> None:
    w = low_rank()
    with tq.materialization("error"):
        f = PLACES[place](lambda x, w: x @ w)
        got = use(lambda x: f(x, w), PRODUCT)(X)
    assert_same(got, f(X, dense(w)))


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "vjp", "vmap, not mapped"])
@pytest.mark.parametrize("place", ["jit", "scan", "cond", "checkpoint"])
def test_where_an_inner_function_runs_nothing_becomes_dense(name: str, place: str) -> None:
    w = low_rank()
    f = PLACES[place](AS_ONE_ARRAY[name])
    with tq.materialization("error"):
        got = use(closed_over(f, w), PRODUCT)(X)
    assert_same(got, f(X, dense(w)))


def test_in_an_inner_function_it_is_said_what_needed_the_dense_array() -> None:
    w = low_rank()
    with tq.materialization("error"), pytest.raises(tq.MaterializationError) as caught:
        use(lambda x: jax.jit(lambda x: x @ jnp.sin(w))(x), PRODUCT)(X)
    assert "would have become dense (48 B) for sin(LowRank f32[3,4]) at " in str(caught.value)
    assert f"{__file__}:" in str(caught.value)


class Unit(tq.ImplicitArray, materialization="error"):
    x: Float[tq.ArrayValue, "n"]
    unit: str = tq.aux_field(default="")

    def materialize(self) -> Array:
        return self.x


def times_unit(a: Unit, b: Unit, /) -> Unit:
    return Unit(a.x * b.x, a.unit + b.unit)


def times_number(a: Unit, b: Array, /) -> Unit:
    return Unit(a.x * b, a.unit)


UNITS = tq.HandlerTable("units", ops.mul.to(times_unit), ops.mul.to(times_number, commutative=True))


HOLDING: dict[str, Callable[[Any], Any]] = {
    "an argument": lambda p: LowRank(p, low_rank().b, 1.0),
    "one array of one made inside": lambda p: LowRank(jnp.asarray(Plain(p.x)), low_rank().b, 1.0),
}

ASKED: dict[str, Callable[[Any], Any]] = {
    "materialize": tq.materialize,
    "numpy": lambda w: jnp.asarray(np.asarray(w)),
    "item": lambda w: jnp.asarray(w[0, 0].item()),
    "in an inner transform": lambda w: use(lambda x: tq.materialize(w) + 0 * x[0, 0])(X),
    "in an inner function": lambda w: jax.jit(lambda: tq.materialize(w))(),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("holding", HOLDING)
def test_what_holds_a_tracer_becomes_dense_where_it_is_asked_to(holding: str, asked: str) -> None:
    def f(p: Any) -> Any:
        return ASKED[asked](HOLDING[holding](p))

    a = low_rank().a
    with tq.materialization("allow"):
        got = use(f)(Plain(a))
    value = dense(LowRank(a, low_rank().b, 1.0))
    assert_same(got, ASKED[asked](value))


def test_what_forbids_it_is_raised_through_lax_as_it_is() -> None:
    w = low_rank()
    for inner in (jax.jit, jax.vmap):
        with tq.materialization("error"), pytest.raises(tq.MaterializationError):
            use(lambda x: inner(lambda r: jnp.sum(lax.neg(w)) * jnp.sum(r))(x))(X)  # noqa: B023


def test_axes_of_a_class_without_leaves_are_no_array() -> None:
    z = Zeros(shape=(3, 4), dtype=jnp.float32)
    axes = jax.tree.map(lambda _: None, z)
    got = use(lambda x: jax.vmap(lambda z, r: r @ z, in_axes=(axes, 0))(z, x))(X)
    assert_same(tq.materialize(got), X @ jnp.zeros((3, 4)))


ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "argument first": lambda m, s: m * s,
    "argument last": lambda m, s: s * m,
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint], ids=["jit", "checkpoint"])
def test_in_an_inner_function_it_meets_the_implicit_argument(wrap: Any, order: str) -> None:
    s, m = Unit(jnp.ones(3), "s"), Unit(jnp.ones(3), "m")
    got = use(wrap(lambda m: ORDERS[order](m, s)), UNITS)(m)
    assert got.unit == {"argument first": "ms", "argument last": "sm"}[order]


@pytest.mark.parametrize("order", ORDERS)
def test_under_vmap_it_meets_the_implicit_argument(order: str) -> None:
    s, m = Unit(jnp.ones(3), "s"), Unit(jnp.ones(3), "m")

    def f(m: Any) -> Any:
        return jax.vmap(lambda t: t * ORDERS[order](m, s).x, axis_size=2)(jnp.ones((2, 3)))

    assert_same(use(f, UNITS)(m), jnp.ones((2, 3)))


def test_beside_a_dense_operand_of_an_inner_function_it_is_right() -> None:
    w = low_rank()
    with tq.materialization("allow"):
        got = use(lambda x, p: jax.jit(lambda x: x @ w + w[:2])(x) + p[0, 0], PRODUCT)(X, Plain(X))
    assert_same(tq.materialize(got), X @ dense(w) + dense(w)[:2] + X[0, 0])


# --- jnp and lax, where no argument is implicit ---------------------------------------------------

JNP: dict[str, Callable[[Any, Any], Any]] = {
    "einsum": lambda x, w: jnp.einsum("bm,mn->bn", x, w),
    "asarray": lambda x, w: x @ jnp.asarray(w),
    "lax": lambda x, w: lax.dot(x, w),
    "stack": lambda x, w: jnp.stack([w, w]) + x.sum(),
    "tanh": lambda x, w: jnp.tanh(w) + x.sum(),
    "dot": lambda x, w: jnp.dot(x, w),
    "inner jit": lambda x, w: jax.jit(lambda x: jnp.dot(x, w))(x),
    "scan": lambda x, w: lax.scan(lambda c, row: (c, jnp.dot(row, w)), 0.0, x)[1],
    "tree": lambda x, w: x @ jax.tree.map(lambda leaf: 2 * leaf, {"w": jnp.asarray(w)})["w"],
    "lax in jit": lambda x, w: jax.jit(lambda x: lax.dot(x, w))(x),
    "lax in scan": lambda x, w: lax.scan(lambda c, row: (c, lax.dot(row, w)), 0.0, x)[1],
    "lax in cond": lambda x, w: lax.cond(x[0, 0] > -9, lambda: lax.neg(w), lambda: lax.sin(w)),
    "lax in grad": lambda x, w: jax.grad(lambda x: lax.dot(x, w).sum())(x),
    "lax in grad, alone": lambda x, w: jax.grad(lambda s: (s * lax.sin(w)).sum())(x[0, 0]),
    "lax in vmap": lambda x, w: jax.vmap(lambda row: lax.dot(row, w))(x),
    "lax in vmap of grad": lambda x, w: jax.vmap(jax.grad(lambda r: lax.dot(r, w).sum()))(x),
    "two": lambda x, w: lax.neg(w) + jnp.einsum("bm,mn->bn", x, w).sum(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", JNP)
def test_jnp_and_lax_take_it_where_no_argument_is_implicit(name: str, way: str) -> None:
    w = low_rank()
    with tq.materialization("allow"):
        got = use(WAYS[way](JNP[name], w), HANDLERS)(X)
        under_jit = jax.jit(use(WAYS[way](JNP[name], w), HANDLERS))(X)
    assert_same(got, JNP[name](X, dense(w)))
    assert_same(under_jit, JNP[name](X, dense(w)))


OF_TRACERS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "grad": lambda f: jax.grad(f)(2.0),
    "jvp": lambda f: jax.jvp(f, (2.0,), (1.0,))[1],
    "vmap": lambda f: jax.vmap(f)(jnp.arange(3.0)),
    "grad in jit": lambda f: jax.jit(jax.grad(f))(2.0),
    "vmap of grad": lambda f: jax.vmap(jax.grad(f))(jnp.arange(3.0)),
}


@pytest.mark.parametrize("name", OF_TRACERS)
def test_lax_takes_one_that_is_made_of_what_is_differentiated_or_mapped(name: str) -> None:
    w, transform = low_rank(), OF_TRACERS[name]

    def f(as_operand: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda s: lax.sin(as_operand(LowRank(s * w.a, w.b, w.scale))).sum()

    want = transform(f(dense))
    for argument in (X, Plain(X)):
        with tq.materialization("allow"):
            got = use(lambda _: transform(f(lambda made: made)), HANDLERS)(argument)
            assert_same(got, want)


@pytest.mark.parametrize("name", ["einsum", "asarray", "lax"])
def test_its_handlers_run_there(name: str) -> None:
    w = low_rank()
    with tq.materialization("error"):
        got = use(closed_over(JNP[name], w), HANDLERS)(X)
    assert_same(got, JNP[name](X, dense(w)))


FIRST_USES: dict[str, Callable[[Any, Any], Any]] = {
    "in vmap": lambda x, w: jax.vmap(lambda row: lax.dot(row, w))(x),
    "in jvp": lambda x, w: jax.jvp(lambda s: lax.dot(x * s, w), (2.0,), (1.0,)),
}


@pytest.mark.parametrize("way", [jax.jit, jax.vmap, jax.linearize])
@pytest.mark.parametrize("name", FIRST_USES)
def test_where_the_function_is_transformed_outside_they_run_at_a_first_use_inside(
    name: str, way: Any
) -> None:
    w, first_use = low_rank(), FIRST_USES[name]
    x = jnp.stack([X, 2 * X]) if way is jax.vmap else X

    def transformed(f: Callable[[Any], Any]) -> Any:
        return way(f, x)[0] if way is jax.linearize else way(f)(x)

    with tq.materialization("error"):
        got = transformed(use(lambda x: first_use(x, w), HANDLERS))
    assert_same(got, transformed(lambda x: first_use(x, dense(w))))


INNER: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda f, x: f(x),
    "jit": lambda f, x: jax.jit(f)(x),
    "jit, inlined": lambda f, x: jax.jit(f, inline=True)(x),
    "jit in jit": lambda f, x: jax.jit(lambda x: jax.jit(f)(x) * 2)(x),
    "scan": lambda f, x: lax.scan(lambda c, _: (f(c), c), x, None, length=2),
    "cond": lambda f, x: lax.cond(x[0, 0] > -9, f, lambda x: x, x),
    "checkpoint": lambda f, x: jax.checkpoint(f)(x),
}
HELD: dict[str, Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]] = {
    "closed over": lambda f: lambda x, w: use(lambda x: f(x, w))(x),
    "beside an argument": lambda f: lambda x, w: use(lambda x, _: f(x, w))(x, Plain(X)),
    "an argument": lambda f: lambda x, w: use(f)(x, w),
    "made one array": lambda f: lambda x, w: use(lambda x: f(x, jnp.asarray(w)))(x),
}
BACKWARD: dict[str, Callable[[Any], Any]] = {
    "differentiated": lambda w: jax.grad(lambda w: jnp.sum(w * w))(w),
    "an operand of jnp": lambda w: jnp.sin(w),
    "an operand of lax": lambda w: lax.neg(w),
    "its operators": lambda w: 3 * w,
}


def with_backward_rule(inner: str, rule: str) -> Callable[[Any, Any], Any]:
    def program(x: Any, w: Any) -> Any:
        f = jax.custom_vjp(lambda x: x * 1.0)
        f.defvjp(lambda x: (x, None), lambda _, ct: (ct * jnp.sum(BACKWARD[rule](w)),))
        return INNER[inner](f, x)

    return program


@functools.cache
def known_by_backward_rule(inner: str, rule: str) -> Any:
    program, w = with_backward_rule(inner, rule), dense(low_rank())
    return jax.grad(lambda x: total(program(x, w)))(X)


@pytest.mark.without_leak_checks  # a rule that closes over an argument does keep it
@pytest.mark.parametrize("rule", BACKWARD)
@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("inner", INNER)
def test_a_backward_rule_that_runs_when_the_function_is_over_is_a_part_of_it(
    inner: str, held: str, rule: str
) -> None:
    f, w = HELD[held](with_backward_rule(inner, rule)), low_rank()

    def of_all(x: Any) -> Any:
        return total(f(x, w))

    known = known_by_backward_rule(inner, rule)
    with tq.materialization("allow"):
        for gradient in (jax.grad(of_all), jax.jit(jax.grad(of_all)), jax.grad(jax.jit(of_all))):
            assert_same(gradient(X), known)


def with_jvp_rule(w: Any) -> Callable[[Any], Any]:
    f = jax.custom_jvp(lambda x: x * 1.0)
    f.defjvp(lambda primals, tangents: (primals[0] * 1.0, tangents[0] * jnp.sum(3 * w)))
    return f


def with_vjp_rule(w: Any) -> Callable[[Any], Any]:
    f = jax.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct * jnp.sum(3 * w),))
    return f


def total(tree: Any) -> Any:
    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree))


DIFFERENTIATED: dict[str, Callable[[Callable[[Any, Any], Any], Any], Callable[[Any], Any]]] = {
    "outside": lambda f, w: jax.grad(lambda x: total(use(f)(x, w))),
    "outside, in jit": lambda f, w: jax.jit(jax.grad(lambda x: total(use(f)(x, w)))),
    "inside": lambda f, w: lambda x: use(jax.grad(lambda x, w: total(f(x, w))))(x, w),
    "inside, in jit": lambda f, w: jax.jit(
        lambda x: use(jax.grad(lambda x, w: total(f(x, w))))(x, w)
    ),
    "both": lambda f, w: jax.grad(
        lambda x: total(use(jax.grad(lambda x, w: jnp.sin(total(f(x, w)))))(x, w))
    ),
}


@functools.cache
def known_by_rule(rule: Callable[[Any], Callable[[Any], Any]], inner: str, *, twice: bool) -> Any:
    w = dense(low_rank())

    def once(x: Any) -> Any:  # JAX would refuse a tracer for `w`
        return total(INNER[inner](rule(w), x))

    if not twice:
        return jax.grad(once)(X)
    return jax.grad(lambda x: total(jax.grad(lambda x: jnp.sin(once(x)))(x)))(X)


@pytest.mark.without_leak_checks  # a rule that closes over an argument does keep it
@pytest.mark.parametrize("where", DIFFERENTIATED)
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("rule", [with_jvp_rule, with_vjp_rule])
def test_a_rule_of_an_inner_function_may_close_over_an_implicit_argument(
    rule: Callable[[Any], Callable[[Any], Any]], inner: str, where: str
) -> None:
    def program(x: Any, w: Any) -> Any:
        return INNER[inner](rule(w), x)

    w = low_rank()
    with tq.materialization("allow"):
        got = DIFFERENTIATED[where](program, w)(X)
    assert_same(got, known_by_rule(rule, inner, twice=where == "both"))


class Scaled(tq.ImplicitArray, materialization="allow"):
    x: Any
    by: Any

    def materialize(self) -> Array:
        return jnp.asarray(self.x * jnp.asarray(self.by, self.x.dtype))


@pytest.mark.parametrize("by", [2.0, 2, np.float32(2)], ids=repr)
def test_a_number_of_python_in_a_field_is_one_of_the_array(by: Any) -> None:
    def f(x: Any, scaled: Callable[[Any, Any], Any]) -> Any:
        return (
            jax.grad(lambda w: jnp.sum(w * w))(scaled(x, by)),
            jax.vmap(lambda row: row * 2, in_axes=1)(scaled(x, by)),
            jax.vmap(lambda row: row * lax.psum(scaled(row, by), "i"), axis_name="i")(x),
        )

    assert_same(use(lambda x: f(x, Scaled))(X), f(X, lambda x, by: x * by))


def test_what_is_returned_is_the_implicit_array_and_no_tracer() -> None:
    w = low_rank()
    got = use(lambda x: {"w": jnp.asarray(w), "x": x})(X)
    assert type(got["w"]) is LowRank
    assert got["w"].a is w.a
    assert got["x"] is X


def test_an_error_leaves_no_trace_behind() -> None:
    w, before = low_rank(), _jax.current_trace()

    def f(x: Any) -> Any:
        jnp.asarray(w)
        raise ZeroDivisionError(x.shape)

    with pytest.raises(ZeroDivisionError):
        use(f)(X)
    assert _jax.current_trace() is before
    with pytest.raises(tq.TypedQaxError, match="outside use_implicit_args"):
        lax.neg(w)


def test_inside_another_transform_the_tables_are_those_of_the_inner_one() -> None:
    w, ran = low_rank(), list[str]()

    def table(name: str) -> tq.HandlerTable:
        def product(x: Float[Array, "*b m"], w: Float[LowRank, "m n"], /, **params: Any) -> Array:
            ran.append(name)
            return jnp.asarray((x @ w.a) @ w.b.T * w.scale)

        return tq.HandlerTable(name, ops.dot_general.to(product))

    inner = use(lambda x: lax.dot(x, w), table("inner"))
    outer = use(lambda x, v: inner(x) + lax.dot(x, w) + lax.dot(x, v), table("outer"))
    with tq.materialization("allow"):
        outer(X, dense(w))
        outer(X, w)
    assert ran == ["inner", "outer", "inner", "outer", "outer"]


def test_threads_do_not_see_the_functions_of_others() -> None:
    w, seen, wait, go = low_rank(), list[Any](), threading.Event(), threading.Event()

    def other() -> None:
        wait.wait(10)
        try:
            seen.append(jax.grad(lambda w: loss(X, w))(w))
        finally:
            go.set()

    def f(x: Any) -> Any:
        wait.set()
        go.wait(10)
        return jax.grad(loss, 1)(x, w)

    thread = threading.Thread(target=other)
    thread.start()
    inside = use(f, HANDLERS)(X)
    thread.join()
    assert isinstance(seen[0], LowRank)  # outside, by the fields
    assert_same(inside, jax.grad(loss, 1)(X, dense(w)))


# --- as a pytree of its fields --------------------------------------------------------------------


def test_a_handler_differentiates_its_operand_by_the_fields() -> None:
    w, kinds = low_rank(), list[type]()

    def product(x: Float[Array, "*b m"], w: Float[LowRank, "m n"], /, **params: Any) -> Array:
        gradient = jax.grad(lambda w: jnp.sum(w.a) * w.scale + jnp.sum(w.b))(w)
        kinds.append(type(gradient))
        return jnp.asarray(x @ w.a @ w.b.T * w.scale)

    use(lambda x, w: x @ w, tq.HandlerTable("by fields", ops.dot_general.to(product)))(X, w)
    assert kinds == [LowRank]


@pytest.mark.parametrize("place", ["eager", "jit", "scan"])
def test_the_operators_in_a_handler_run_the_handlers_of_the_function_it_runs_in(place: str) -> None:
    w, ran = low_rank(), list[str]()

    def counted(x: Float[Array, "*b m"], w: Float[LowRank, "m n"], /, **params: Any) -> Array:
        ran.append("dot_general")
        return jnp.asarray((x @ w.a) @ w.b.T * w.scale)

    def negated(v: LowRank, /) -> Array:
        return -(jnp.eye(3) @ w)

    table = tq.HandlerTable("two", ops.dot_general.to(counted), ops.neg.to(negated))
    places: dict[str, Callable[[Any], Any]] = {
        "eager": lambda v: -v,
        "jit": lambda v: jax.jit(lambda v: -v)(v),
        "scan": lambda v: lax.scan(lambda c, _: (c, -v), 0, None, length=1)[1][0],
    }
    got = use(places[place], table)(w)
    assert set(ran) == {"dot_general"}
    assert_same(got, -dense(w))


def test_a_materialize_method_differentiates_its_fields_as_they_are() -> None:
    kinds = list[type]()

    class Holds(tq.ImplicitArray, materialization="allow"):
        inner: Float[tq.ArrayValue, "m n"]

        def materialize(self) -> Float[Array, "m n"]:
            other = LowRank(jnp.ones((3, 2)), jnp.ones((4, 2)), 1.0)
            kinds.append(type(jax.grad(lambda w: jnp.sum(w.a))(other)))
            return jnp.asarray(self.inner)

    use(jnp.tanh)(Holds(jnp.ones((3, 4))))
    assert set(kinds) == {LowRank}


def test_trees_of_axes_and_masks_in_its_class_are_no_arrays() -> None:
    base, adapters = low_rank(), jnp.stack([low_rank(seed=seed).a for seed in range(3)])
    stack = LowRank(adapters, base.b, base.scale)
    axes: Any = jax.tree.unflatten(jax.tree.structure(base), [0, None])

    def f(x: Any) -> Any:
        mask = jax.tree.map(lambda leaf: leaf.ndim > 1, base)
        assert mask.a is True
        return jax.vmap(lambda w: x @ w, in_axes=(axes,))(stack)

    with tq.materialization("error"):
        got = use(f, PRODUCT)(X)
    assert_same(got, jnp.stack([X @ dense(LowRank(a, base.b, base.scale)) for a in adapters]))


PARAMS = {"w": low_rank(), "z": Zeros(shape=(3,), dtype=jnp.float32), "b": jnp.ones(3)}


def squares(tree: Any) -> Any:
    return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree))


def apart(tree: Any, wanted: Callable[[Any], bool]) -> tuple[Any, Any]:
    """What is wanted of a tree, and the rest, as equinox partitions a model."""
    mask = jax.tree.map(wanted, tree)
    return (
        jax.tree.map(lambda is_wanted, leaf: leaf if is_wanted else None, mask, tree),
        jax.tree.map(lambda is_wanted, leaf: None if is_wanted else leaf, mask, tree),
    )


def together(*trees: Any) -> Any:
    def first(*leaves: Any) -> Any:
        return next((leaf for leaf in leaves if leaf is not None), None)

    return jax.tree.map(first, *trees, is_leaf=lambda leaf: leaf is None)


OUTSIDE = apart(PARAMS, lambda leaf: leaf.ndim > 1)

WALKS: dict[str, Callable[[Any, Any], Any]] = {
    "norm": lambda x, p: squares(p),
    "norm in jit": lambda x, p: jax.jit(lambda x: x * squares(p))(x),
    "norm in vmap": lambda x, p: jax.vmap(lambda x: x * squares(p))(x),
    "norm in grad": lambda x, p: jax.grad(lambda x: jnp.sum(x) * squares(p))(x),
    "average": lambda x, p: jax.tree.map(lambda leaf: 0.9 * leaf, p),
    "of two": lambda x, p: jax.tree.map(lambda a, b: a + b, p, p),
    "zeros": lambda x, p: jax.tree.map(jnp.zeros_like, p),
    "reduce": lambda x, p: jax.tree.reduce(lambda a, b: a + jnp.sum(b), p, jnp.float32(0)),
    "shapes": lambda x, p: jax.tree.map(lambda leaf: jnp.ones(leaf.shape), p),
    "associative_scan": lambda x, p: lax.associative_scan(lambda a, b: a * b, p["w"]),
    "in what JAX calls": lambda x, p: jax.jit(
        functools.partial(jax.tree.map, lambda leaf: leaf * leaf, p)
    )(),
    "leaves in what JAX calls": lambda x, p: jax.checkpoint(
        functools.partial(jax.tree.leaves, p)
    )(),
    "a norm of JAX's": lambda x, p: optimizers.l2_norm(p),
    "ravel": lambda x, p: jax.flatten_util.ravel_pytree(p)[0],
    "apart and together": lambda x, p: squares(together(*apart(p, lambda leaf: leaf.ndim > 1))),
    "together, the other way round": lambda x, p: squares(
        together(*apart(p, lambda leaf: leaf.ndim > 1)[::-1])
    ),
    "by a mask": lambda x, p: jax.tree.map(
        lambda is_wanted, leaf: leaf * leaf if is_wanted else leaf,
        jax.tree.map(lambda leaf: leaf.ndim > 1, p),
        p,
    ),
    "beside a mask": lambda x, p: jax.tree.map(
        lambda leaf, is_wanted: jnp.where(is_wanted, leaf * leaf, leaf),
        p,
        jax.tree.map(lambda leaf: leaf.ndim > 1, p),
    ),
    "how many": lambda x, p: jnp.ones(
        sum(jax.tree.leaves(jax.tree.map(lambda leaf: leaf.ndim > 1, p)))
    ),
    "sizes": lambda x, p: jnp.ones(sum(jax.tree.leaves(jax.tree.map(lambda leaf: leaf.size, p)))),
    "a part": lambda x, p: squares(apart(p, lambda leaf: leaf.ndim > 1)[0]),
    "with paths": lambda x, p: jax.tree_util.tree_map_with_path(lambda _, leaf: 2.0 * leaf, p),
    "of its own": lambda x, p: squares(jax.tree.map(lambda leaf: leaf * 2, p)),
}


@pytest.mark.parametrize("name", WALKS)
def test_to_what_walks_a_tree_it_is_one_array(name: str) -> None:
    f = WALKS[name]
    want = f(X, tq.materialize(PARAMS))
    for way in (lambda f: f, jax.jit):
        for argument in (X, Plain(X)):
            with tq.materialization("allow"):
                got = tq.materialize(way(use(lambda x: f(x, PARAMS), HANDLERS))(argument))
            assert_same(got, want)


class OfParts(tq.ImplicitArray, materialization="allow"):
    """Its field is a container, which may be empty."""

    default_shape, default_dtype = (2,), jnp.float32
    parts: tuple[tq.ArrayValue, ...]

    def materialize(self) -> Array:
        return sum(self.parts, jnp.ones(2))


@pytest.mark.parametrize("parts", [(), (jnp.ones(2),)], ids=["none", "one"])
def test_one_with_a_container_in_its_field_is_walked(parts: tuple[Any, ...]) -> None:
    w = OfParts(parts)
    with tq.materialization("allow"):
        assert_same(use(lambda x: x * squares({"w": w}))(X), X * (2.0 + 6.0 * len(parts)))


@pytest.mark.parametrize("backward", [False, True])
def test_what_was_taken_apart_outside_is_put_together_inside(backward: bool) -> None:
    parts = OUTSIDE[::-1] if backward else OUTSIDE
    with tq.materialization("allow"):
        got = use(lambda x: squares(together(*parts)), HANDLERS)(X)
    assert_same(got, squares(tq.materialize(PARAMS)))


def test_fields_that_were_taken_apart_are_put_together_by_fields() -> None:
    w = low_rank()
    first, rest = LowRank(w.a, None, w.scale), LowRank(None, w.b, w.scale)  # type: ignore[arg-type]  # as equinox leaves them
    got = use(lambda x: x @ together(first, rest), PRODUCT)(X)
    assert_same(got, X @ dense(w))


MISMATCHED: dict[str, Callable[[Any, Any], Any]] = {
    "jacfwd": lambda x, w: jax.jacfwd(lambda w: x @ w)(w),
    "jacrev": lambda x, w: jax.jacrev(lambda w: x @ w)(w),
    "hessian": lambda x, w: jax.hessian(lambda w: loss(x, w))(w),
    "jvp": lambda x, w: jax.jvp(lambda w: x @ w, (w,), (jnp.ones((3, 4)),)),
    "a tangent": lambda x, w: jax.linearize(lambda w: x @ w, w)[1](jnp.ones((3, 4))),
    "tree.map": lambda x, w: jax.tree.map(lambda p, g: p - g, w, jax.grad(loss, 1)(x, w)),
}


@pytest.mark.parametrize("name", MISMATCHED)
def test_where_pytrees_have_to_agree_the_error_says_what_to_do(name: str) -> None:
    w = low_rank()
    with pytest.raises((TypeError, ValueError)) as caught:
        use(closed_over(MISMATCHED[name], w), HANDLERS)(X)
    (note,) = [note for note in caught.value.__notes__ if "LowRank" in note]
    assert note == (
        "A LowRank that was closed over, or made in the function, is one array to derivatives, "
        "vmap and collectives, and a pytree of its fields to JAX's other functions (scan, cond, "
        "jit, ...); a tree that has it does not agree with one that has a dense array there. Pass "
        "it to the function under use_implicit_args as an argument, or write `x = jnp.asarray(x)` "
        "with it first: then it is one array to all of them, and stays implicit."
    )


@pytest.mark.parametrize("name", MISMATCHED)
def test_what_the_error_says_works(name: str) -> None:
    w = low_rank()
    with tq.materialization("allow"):
        got = use(lambda x: MISMATCHED[name](x, jnp.asarray(w)), HANDLERS)(X)
    assert_same(got, MISMATCHED[name](X, dense(w)))


@pytest.mark.parametrize("argnums", [0, (0,)], ids=str)
@pytest.mark.parametrize("derivative", [jax.grad, jax.value_and_grad])
def test_argnums_may_name_it_in_a_tuple(derivative: Any, argnums: Any) -> None:
    w = low_rank()

    def f(w: Any) -> Any:
        return jnp.sum(jnp.sin(X @ w))

    with tq.materialization("allow"):
        got = use(lambda _: derivative(f, argnums=argnums)(w))(X)
    assert_same(got, derivative(f, argnums=argnums)(dense(w)))


# --- what a handler keeps implicit, in functions that JAX calls -----------------------------------


class Factor(tq.ImplicitArray, materialization="allow"):
    """The product with it is one of its kind."""

    x: Any

    def materialize(self) -> Array:
        return jnp.asarray(self.x)


def times(w: Factor, x: Array, /) -> Factor:
    return Factor(w.x * x)


FACTORS = tq.HandlerTable("factors", ops.mul.to(times, commutative=True))
KEPT: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda x, w: lax.scan(lambda c, _: (c * w, None), x, None, length=2)[0],
    "fori_loop": lambda x, w: lax.fori_loop(0, 2, lambda _, c: c * w, x),
    "cond": lambda x, w: lax.cond(x[0, 0] < 9, lambda x: x * w, lambda x: x, x),
    "switch": lambda x, w: lax.switch(1, [lambda x: x, lambda x: x * w], x),
    "map": lambda x, w: lax.map(lambda row: row * w[0], x),
    "vmap": lambda x, w: jax.vmap(lambda row: row * w[0])(x),
    "vmap of both": lambda x, w: jax.vmap(lambda row, other: row * other)(x, w),
    "jit": lambda x, w: jax.jit(lambda x: x * w)(x),
    "vjp": lambda x, w: jax.vjp(lambda x: x * w, x)[1](x)[0],
    "jvp": lambda x, w: jax.jvp(lambda x: x * w, (x,), (x,))[1],
    "jacrev": lambda x, w: jax.jacrev(lambda x: x * w)(x),
    "grad of checkpoint": lambda x, w: jax.grad(
        lambda x: jnp.sum(jax.checkpoint(lambda x: x * w)(x))
    )(x),
    "grad of scan": lambda x, w: jax.grad(
        lambda x: jnp.sum(lax.scan(lambda c, _: (c * w, None), x, None, length=2)[0])
    )(x),
    "hessian": lambda x, w: jax.hessian(lambda x: jnp.sum(jnp.sin(x * w)))(x),
}
MET: dict[str, Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]] = {
    "closed over": lambda f: lambda x, w: use(lambda x: f(x, w), FACTORS)(x),
    "closed over beside": lambda f: lambda x, w: use(lambda x, _: f(x, w), FACTORS)(x, Plain(x)),
    "made": lambda f: lambda x, w: use(lambda x, y: f(x, Factor(y)), FACTORS)(x, w.x),
}


@pytest.mark.parametrize("met", MET)
@pytest.mark.parametrize("name", KEPT)
def test_what_a_handler_keeps_implicit_is_one_array_to_functions_that_jax_calls(
    name: str, met: str
) -> None:
    f = MET[met](KEPT[name])
    want = KEPT[name](X, 2 * X)
    for way in (f, jax.jit(f)):
        assert_same(tq.materialize(way(X, Factor(2 * X))), want)


def test_what_a_handler_keeps_implicit_stays_so_in_an_inner_function() -> None:
    w = Factor(2 * X)
    with tq.materialization("error"):
        got = use(lambda x: jax.jit(lambda x: x * w)(x), FACTORS)(X)
    assert type(got) is Factor
    assert_same(got.x, 2 * X * X)


def test_a_unit_stays_one_in_an_inner_function() -> None:
    s = Unit(jnp.ones(3), "s")
    for way in (lambda f: f, jax.jit):
        got = way(use(lambda x: jax.jit(lambda x: x * s)(x), UNITS))(jnp.arange(3.0))
        assert type(got) is Unit
        assert got.unit == "s"
        assert_same(got.x, jnp.arange(3.0))


TRAINING: dict[str, Callable[[Any, Any], Any]] = {
    "vmap": lambda w, x: jax.vmap(lambda row: row @ w)(x).sum(),
    "grad": lambda w, x: jax.grad(lambda s: jnp.sum((s * x) @ w))(2.0),
    "jvp": lambda w, x: jax.jvp(lambda x: x @ w, (x,), (x,))[1].sum(),
}
STEPS: dict[str, Callable[[Callable[[Any, Any], Any]], Callable[[Any, Any], Any]]] = {
    "jit": jax.jit,
    "jit of value_and_grad": lambda f: jax.jit(lambda w, x: jax.value_and_grad(f, 1)(w, x)),
    "vmap": lambda f: lambda w, x: jax.vmap(f, (None, 0))(w, x[None]),
    "scan": lambda f: lambda w, x: lax.scan(lambda c, x: (c, f(w, x)), 0.0, x[None])[1],
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", TRAINING)
def test_an_argument_of_what_is_staged_outside_is_closed_over_as_one_array(
    name: str, step: str
) -> None:
    f = TRAINING[name]

    def program(w: Any, x: Any) -> Any:
        return use(lambda x: f(w, x), HANDLERS)(x)

    w = low_rank()
    with tq.materialization("error" if name == "vmap" else "allow"):
        assert_same(STEPS[step](program)(w, X), STEPS[step](f)(dense(w), X))


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint], ids=["jit", "checkpoint"])
def test_what_was_traced_for_a_dense_array_does_not_take_a_unit_for_one(wrap: Any) -> None:
    s, m = Unit(jnp.ones(3), "s"), Unit(jnp.ones(3), "m")
    f = use(wrap(lambda x: x * s), UNITS)
    assert f(jnp.ones(3)).unit == "s"
    assert f(m).unit == "ms"
    assert f(jnp.ones(3)).unit == "s"


S, M = Unit(jnp.ones(3), "s"), Unit(jnp.ones(3), "m")


def in_another_way(a: Unit, b: Array, /) -> Unit:
    return Unit(a.x * b, "other")


OTHER_UNITS = tq.HandlerTable("other units", ops.mul.to(in_another_way, commutative=True))

CALLS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "outside": lambda h: h(jnp.ones(3)).unit,
    "dense": lambda h: use(lambda x: h(x), UNITS)(jnp.ones(3)).unit,
    "unit": lambda h: use(lambda x: h(x), UNITS)(M).unit,
    "both": lambda h: [
        each.unit for each in use(lambda x: (h(x), h(jnp.asarray(M))), UNITS)(jnp.ones(3))
    ],
    "in a handler": lambda h: use(lambda x: h(x), UNITS)(use(jnp.negative, negated(h))(M)).unit,
    "another table": lambda h: use(lambda x: h(x), OTHER_UNITS)(jnp.ones(3)).unit,
}
WANTED: dict[str, Any] = {
    "outside": "s",
    "dense": "s",
    "unit": "sm",
    "both": ["s", "sm"],
    "in a handler": "sms",
    "another table": "other",
}


def negated(h: Callable[[Any], Any]) -> tq.HandlerTable:
    def of_unit(x: Unit, /) -> Unit:
        return Unit(h(x.x).x, x.unit + h(x.x).unit)

    return tq.HandlerTable("negated", ops.neg.to(of_unit), *UNITS.rules)


@pytest.mark.parametrize("first", CALLS)
def test_what_jax_remembers_of_a_function_suits_whoever_calls_it_next(first: str) -> None:
    with tq.installed(UNITS):
        for then in CALLS:
            h = jax.jit(lambda x: S * x)
            for call in (first, then, first):
                assert CALLS[call](h) == WANTED[call], (first, then)


def test_what_an_inner_transform_gives_holds_no_tracer_of_the_outer_one() -> None:
    def f(m: Any, b: Any) -> Any:
        return use(lambda b: Plain(m), OTHER_UNITS)(b)

    got = use(f, UNITS)(M, Plain(jnp.ones(3)))
    assert type(got.x) is Unit
    assert_same(use(lambda p: p.x, UNITS)(got).x, M.x)
