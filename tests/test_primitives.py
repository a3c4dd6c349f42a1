"""The primitives that speak of implicit arrays in what JAX stages, seen by a transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import typedqax as tq
from tests.agreement import X, assert_same, low_rank, use
from tests.implicit_kinds import HANDLERS, LowRank, Plain, Zeros, dense
from typedqax import ops


def names(jaxpr: Any) -> list[str]:
    return [eqn.primitive.name for eqn in jaxpr.eqns]


# --- implicit_array -------------------------------------------------------------------------------


def test_in_what_jax_stages_it_is_an_equation_of_its_leaves() -> None:
    w = low_rank()
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(jax.make_jaxpr(lambda x: x @ w)(x).jaxpr)
        return x

    use(f, HANDLERS)(X)
    (jaxpr,) = seen
    assert names(jaxpr) == ["implicit_array", "dot_general"]
    made = jaxpr.eqns[0]
    assert [aval.str_short() for aval in (each.aval for each in made.invars)] == [
        "float32[3,2]",
        "float32[4,2]",
    ]
    assert made.outvars[0].aval.str_short() == "float32[3,4]"


def test_where_the_function_is_done_none_is_left() -> None:
    w = low_rank()
    for f in (jax.jit(lambda x: x @ w), lambda x: lax.scan(lambda c, r: (c, r @ w), 0.0, x)[1]):
        text = str(jax.make_jaxpr(use(f, HANDLERS))(X))
        assert "dot_general" in text
        assert "implicit_array" not in text


MADE: dict[str, Callable[[Any], Any]] = {
    "leaves": lambda a: LowRank(a, low_rank().b),
    "no leaves": lambda a: Zeros(shape=(3, 4), dtype=jnp.float32),
    "nested": lambda a: Plain(LowRank(a, low_rank().b)),
}
AROUND: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "jit": jax.jit,
    "jit of grad": lambda f: jax.jit(jax.grad(lambda a: jnp.sum(jnp.sin(f(a))))),
    "grad of jit": lambda f: jax.grad(lambda a: jnp.sum(jnp.sin(jax.jit(f)(a)))),
    "jvp of jit": lambda f: lambda a: jax.jvp(jax.jit(f), (a,), (jnp.ones_like(a),)),
    "linearize of jit": lambda f: lambda a: jax.linearize(jax.jit(f), a)[1](jnp.ones_like(a)),
    "hessian of jit": lambda f: jax.hessian(lambda a: jnp.sum(jnp.sin(jax.jit(f)(a)))),
    "vmap of jit": lambda f: lambda a: jax.vmap(jax.jit(f))(jnp.stack([a, 2 * a])),
    "vmap of jit, last axis": lambda f: (
        lambda a: jax.vmap(jax.jit(f), -1)(jnp.stack([a, 2 * a], -1))
    ),
    "vmap of vmap of jit": lambda f: (
        lambda a: jax.vmap(jax.vmap(jax.jit(f)))(jnp.stack([a, 2 * a])[None])
    ),
    "vmap of grad of jit": lambda f: (
        lambda a: jax.vmap(jax.grad(lambda a: jnp.sum(jnp.sin(jax.jit(f)(a)))))(
            jnp.stack([a, 2 * a])
        )
    ),
    "grad of checkpoint": lambda f: jax.grad(lambda a: jnp.sum(jnp.sin(jax.checkpoint(f)(a)))),
    "grad of scan": lambda f: jax.grad(
        lambda a: jnp.sum(lax.scan(lambda c, _: (jnp.sin(c + f(a)), None), f(a), None, 2)[0])
    ),
    "cond": lambda f: lambda a: lax.cond(a[0, 0] > 9, f, lambda a: 2 * f(a), a),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("made", MADE)
def test_one_made_of_what_is_differentiated_or_mapped_is_the_array(made: str, around: str) -> None:
    def f(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return AROUND[around](lambda a: (a[:2] @ X) @ make(a) + make(a)[:2])

    want = f(lambda a: tq.materialize(MADE[made](a)))(low_rank().a)
    for argument in (low_rank().a, Plain(low_rank().a)):
        with tq.materialization("allow"):
            got = use(f(MADE[made]), HANDLERS)(argument)
        assert_same(tq.materialize(got), want)


class Doubled(tq.ImplicitArray, materialization="allow"):
    """Twice its field: linear in that."""

    x: tq.ArrayValue

    def materialize(self) -> Any:
        return self.x * 2


TRANSPOSED: dict[str, Callable[[Any, Any], Any]] = {
    "dot": lambda d, x: jnp.dot(d(x), low_rank().materialize()),
    "mul": lambda d, x: lax.mul(d(x), X),
    "jit": lambda d, x: jax.jit(lambda x: d(x) * 3.0)(x),
    "scan": lambda d, x: lax.scan(lambda c, row: (c, row * d(x)[0]), 0.0, X)[1],
    "materialize": lambda d, x: tq.materialize(x) * 2.0,
    "materialize in jit": lambda d, x: jax.jit(lambda x: tq.materialize(x) * 2.0)(x),
    "not used": lambda d, x: (jax.jit(d)(x), x)[1] * 1.0,
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_what_is_linear_in_its_fields_is_transposed(name: str) -> None:
    def f(make: Any) -> Callable[[Any], Any]:
        program = TRANSPOSED[name]
        ones = jax.tree.map(jnp.ones_like, program(lambda x: x * 2, X))
        return lambda x: jax.linear_transpose(lambda x: program(make, x), x)(ones)[0]

    want = f(lambda x: x * 2)(X)
    for argument in (X, Plain(X)):
        assert_same(use(f(Doubled), HANDLERS)(argument), want)


def test_a_stack_of_what_is_mapped_keeps_its_handlers() -> None:
    a = jnp.stack([low_rank().a, 2 * low_rank().a])

    def f(a: Any) -> Any:
        return jax.vmap(jax.jit(lambda a: X @ LowRank(a, low_rank().b)))(a)

    with tq.materialization("error"):
        got = use(f, HANDLERS)(a)
    assert_same(got, jnp.stack([X @ dense(LowRank(each, low_rank().b)) for each in a]))


def kept_from_inside(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What JAX stages of `f` under the transform, to be called outside."""
    kept: list[Any] = []

    def stages(x: Any) -> Any:
        kept.append(jax.make_jaxpr(f)(x))
        return x

    use(stages, HANDLERS)(X)
    (closed,) = kept
    return lambda x: jax.core.eval_jaxpr(closed.jaxpr, closed.consts, x)[0]


@pytest.mark.parametrize("way", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_outside_of_a_transform_it_is_the_dense_array_which_is_said(way: Any) -> None:
    w = low_rank()
    f = way(kept_from_inside(lambda x: x @ w + jnp.sum(tq.materialize(x))))
    with tq.materialization("warn", LowRank), pytest.warns(tq.MaterializationWarning) as caught:
        assert_same(f(X), X @ dense(w) + jnp.sum(X))
    (said,) = {str(warning.message) for warning in caught}
    assert "(48 B) for what JAX staged under use_implicit_args(LowRank f32[3,4]) at " in said
    assert "To avoid it, apply it under use_implicit_args; to silence" in said


def test_one_that_cannot_be_stacked_is_dense_under_vmap_which_is_said() -> None:
    xs = jnp.stack([X, 2 * X])

    def f(xs: Any, _: Any) -> Any:
        return jax.vmap(jax.jit(lambda x: Plain(x) * x))(xs)

    with tq.materialization("warn", Plain), pytest.warns(tq.MaterializationWarning) as caught:
        assert_same(use(f, HANDLERS)(xs, Plain(X)), xs * xs)
    (said,) = {str(warning.message) for warning in caught}
    assert "became dense (24 B) for jax.vmap(Plain f32[2,3]) at " in said
    assert "annotate the shapes of its fields, so that they can be stacked" in said


def test_a_tangent_of_its_fields_is_dense_which_is_said() -> None:
    def f(a: Any, _: Any) -> Any:
        made = jax.jit(lambda a, x: x @ LowRank(a, low_rank().b))
        return jax.grad(lambda a: jnp.sum(made(a, X)))(a)

    with tq.materialization("warn", LowRank), pytest.warns(tq.MaterializationWarning) as caught:
        use(f, HANDLERS)(low_rank().a, Plain(X))
    (said,) = {str(warning.message) for warning in caught}
    assert "became dense (48 B) for a derivative(LowRank f32[3,4]) at " in said
    assert "To avoid it, differentiate outside, as in jax.grad(tq.use_implicit_args(f)); to" in said


class Unit(tq.ImplicitArray, materialization="error"):
    x: tq.ArrayValue
    unit: str = tq.aux_field(default="")

    def materialize(self) -> Any:
        return self.x


def times_unit(a: Unit, b: Unit, /) -> Unit:
    return Unit(a.x * b.x, a.unit + b.unit)


def times_number(a: Unit, b: Array, /) -> Unit:
    return Unit(a.x * b, a.unit)


class Boxed(tq.ImplicitArray, materialization="allow"):
    x: tq.ArrayValue

    def materialize(self) -> Any:
        return scaled_by_unit["h"](self.x)


def negated(box: Boxed, /) -> Any:
    return scaled_by_unit["h"](box.x)


S, M = Unit(X, "s"), Unit(X, "m")
scaled_by_unit: dict[str, Callable[[Any], Any]] = {}
UNITS = tq.HandlerTable(
    "units",
    ops.mul.to(times_unit),
    ops.mul.to(times_number, commutative=True),
    ops.neg.to(negated),
)


@pytest.mark.parametrize(
    "wrap", [jax.jit, jax.checkpoint, lambda f: f], ids=["jit", "checkpoint", "itself"]
)
def test_in_a_handler_or_materialize_it_meets_a_unit_that_a_field_is(wrap: Any) -> None:
    scaled_by_unit["h"] = wrap(lambda x: S * x)
    for program in (lambda box: -box, lambda box: box * jnp.float32(2)):
        for way in (program, jax.jit(program)):
            assert use(way, UNITS)(Boxed(M)).unit == "sm"


@pytest.mark.without_leak_checks  # JAX cannot show some tracers that are alive with an error
@pytest.mark.parametrize(
    "wrap", [jax.jit, jax.checkpoint, lambda f: f], ids=["jit", "checkpoint", "itself"]
)
def test_a_unit_made_of_what_is_differentiated_has_no_dense_tangent(wrap: Any) -> None:
    def f(x: Any, _: Any) -> Any:
        return jax.jvp(wrap(lambda y: Unit(y, "u") * x), (x,), (x,))[1]

    with pytest.raises(tq.MaterializationError, match="for a derivative"):
        use(f, UNITS)(X, Plain(X))


# --- materialize ----------------------------------------------------------------------------------


def product(x: Any, w: Any) -> Any:
    return jnp.sin(x @ tq.materialize(w))


STAGED: dict[str, Callable[[Any, Any], Any]] = {
    "jit": jax.jit(product),
    "grad": lambda x, w: jax.grad(lambda w: jnp.sum(product(x, w)))(w),
    "jit of grad": lambda x, w: jax.jit(jax.grad(lambda w: jnp.sum(product(x, w))))(w),
    "grad of jit": lambda x, w: jax.grad(lambda w: jnp.sum(jax.jit(product)(x, w)))(w),
    "hessian": lambda x, w: jax.hessian(lambda w: jnp.sum(product(x, w)))(w),
    "vmap": lambda x, w: jax.vmap(product, (0, None))(x, w),
    "jit of vmap": jax.jit(lambda x, w: jax.vmap(lambda row: tq.materialize(row) * 2.0)(w)),
    "scan": lambda x, w: lax.scan(lambda c, row: (c, product(row, w)), 0.0, x)[1],
    "checkpoint": lambda x, w: jax.grad(lambda w: jnp.sum(jax.checkpoint(product)(x, w)))(w),
    "cond": lambda x, w: lax.cond(x[0, 0] < 9, product, lambda x, w: x @ w, x, w),
}


@pytest.mark.parametrize("name", STAGED)
def test_materialize_in_an_inner_function_gives_the_dense_array(name: str) -> None:
    w = low_rank()
    with tq.materialization("error", allow={"cond"}):
        got = use(STAGED[name], HANDLERS)(X, w)
    assert_same(tq.materialize(got), STAGED[name](X, dense(w)))


def test_materialize_in_an_inner_function_leaves_a_dense_array_as_it_is() -> None:
    f = use(lambda x, w, p: p.x * 0 + jnp.sum(jax.jit(product)(x, w)), HANDLERS)
    operands = X, dense(low_rank()), Plain(X)
    assert_same(f(*operands), X * 0 + jnp.sum(product(*operands[:2])))
    assert "= materialize" not in str(jax.make_jaxpr(f)(*operands))


def test_materialize_takes_the_meaning_of_a_unit_where_that_is_asked_for() -> None:
    got = use(jax.jit(lambda u: jnp.sin(tq.materialize(u))))(Unit(X))
    assert_same(got, jnp.sin(X))
