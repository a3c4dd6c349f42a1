"""Which handlers decide in a transform, and in one inside another; and going on to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import typedqax as tq
from tests.implicit_world import (
    CASES,
    TABLE,
    Plain,
    Scaled,
    close,
    scale_scaled,
    transformed,
)
from tests.transformed_functions import SAME, implicit
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


# --- which handlers decide ------------------------------------------------------------------------


def never(x: Scaled, /) -> Scaled:
    raise AssertionError("this handler is not the one")


def minus_via_table(x: Scaled, /) -> Scaled:
    return Scaled(-x.x, x.factor)


def test_handlers_given_come_before_those_installed() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(tq.HandlerTable("installed", ops.neg.to(never))):
        f = tq.use_implicit_args(
            jnp.negative, handlers=tq.HandlerTable("given", ops.neg.to(minus_via_table))
        )
        close(tq.materialize(f(value)), -dense)
        with pytest.raises(AssertionError, match="not the one"):
            tq.use_implicit_args(jnp.negative)(value)


def test_installed_handlers_are_used_where_those_given_do_not_take_it() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(tq.HandlerTable("installed", ops.neg.to(minus_via_table))):
        f = transformed(
            lambda x: (-x, x * 2.0),
            handlers=tq.HandlerTable("given", ops.mul.to(scale_scaled, commutative=True)),
        )
        result = f(value)
        assert [type(r) for r in result] == [Scaled, Scaled]
        close(tq.materialize(result), (-dense, dense * 2.0))


def test_isolated_handlers_are_the_only_ones() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(tq.HandlerTable("installed", ops.neg.to(never))):
        f = transformed(
            lambda x: (-x, x * 2.0),
            handlers=tq.HandlerTable("given", ops.mul.to(scale_scaled, commutative=True)),
            isolated=True,
        )
        negated, doubled = f(value)
        assert not tq.is_implicit(negated)
        assert type(doubled) is Scaled
        close((negated, tq.materialize(doubled)), (-dense, dense * 2.0))


def test_isolated_without_handlers_has_none() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(tq.HandlerTable("installed", ops.neg.to(never))):
        close(tq.use_implicit_args(jnp.negative, isolated=True)(value), -dense)


def test_an_inner_transform_with_handlers_of_its_own_uses_those() -> None:
    value, dense = CASES["scaled"].both()
    inner = tq.use_implicit_args(
        jnp.negative, handlers=tq.HandlerTable("inner", ops.neg.to(minus_via_table))
    )
    outer = transformed(
        lambda x: inner(x) * 2.0,
        handlers=tq.HandlerTable(
            "outer", ops.neg.to(never), ops.mul.to(scale_scaled, commutative=True)
        ),
    )
    result = outer(value)
    assert type(result) is Scaled
    close(tq.materialize(result), -dense * 2.0)


def test_an_inner_transform_without_handlers_uses_those_of_the_outer() -> None:
    value, dense = CASES["scaled"].both()
    inner = tq.use_implicit_args(jnp.negative)
    for function in (inner, jax.jit(inner)):
        outer = tq.use_implicit_args(
            function, handlers=tq.HandlerTable("outer", ops.neg.to(minus_via_table))
        )
        with tq.installed(tq.HandlerTable("installed", ops.neg.to(never))):
            result = outer(value)
        assert type(result) is Scaled
        close(tq.materialize(result), -dense)


class Plus(tq.ImplicitArray, materialization="error"):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        raise AssertionError("not here")

    def compute_shape(self) -> tuple[int, ...]:
        return self.x.shape

    def compute_dtype(self) -> Any:
        return self.x.dtype


def plus_one(x: Plus, /, **_params: Any) -> Array:
    return x.x + 1.0


def plus_two(x: Plus, /, **_params: Any) -> Array:
    return x.x + 2.0


PLUS_ONE = tq.HandlerTable("plus one", ops.neg.to(plus_one))
PLUS_TWO = tq.HandlerTable("plus two", ops.neg.to(plus_two))

PLACES: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "called": lambda f: f,
    "jit": jax.jit,
    "jit in jit": lambda f: jax.jit(lambda x: jax.jit(f)(x)),
    "vmap": jax.vmap,
    "checkpoint": jax.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (c, f(c)), x, None, length=1)[1][0],
    "while_loop": lambda f: (
        lambda x: lax.while_loop(
            lambda s: s[0] < 1, lambda s: (s[0] + 1, f(x)), (jnp.int32(0), jnp.zeros(3))
        )[1]
    ),
    "cond": lambda f: lambda x: lax.cond(jnp.bool_(True), f, lambda x: jnp.zeros(3), x),
    "vjp": lambda f: lambda x: jax.vjp(f, x)[0],
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones(3),))[0],
    "linearize in jit": lambda f: jax.jit(lambda x: jax.linearize(f, x)[0]),
    "custom_vjp": lambda f: _with_vjp(f),
}


def _with_vjp(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    g = jax.custom_vjp(f)
    g.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return g


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_handlers_of_an_inner_transform_are_used_whatever_stands_between(place: Any) -> None:
    inner = transformed(lambda x: jnp.negative(x), handlers=PLUS_TWO)
    outer = transformed(
        lambda x: (jnp.negative(x), place(inner)(x), jnp.negative(x)), handlers=PLUS_ONE
    )
    x = jnp.arange(3.0)
    close(outer(Plus(x)), (x + 1.0, x + 2.0, x + 1.0))


def test_isolation_of_an_inner_transform_holds_inside_jit() -> None:
    inner = jax.jit(transformed(lambda x: jnp.negative(x), isolated=True))
    outer = transformed(lambda x: inner(x), handlers=PLUS_ONE)
    with pytest.raises(tq.MaterializationError, match="neg"):
        outer(Plus(jnp.arange(3.0)))


def test_handlers_of_an_inner_transform_are_used_where_jit_traced_it_before() -> None:
    inner = jax.jit(transformed(lambda x: jnp.negative(x), handlers=PLUS_TWO))
    x = jnp.arange(3.0)
    close(inner(x), jnp.negative(x))  # dense, so that no handler has a part in what jit keeps
    close(transformed(lambda x: inner(x), handlers=PLUS_ONE)(Plus(x)), x + 2.0)


def test_handlers_of_an_inner_transform_are_used_on_what_it_closes_over() -> None:
    def outer(x: Any) -> Any:
        return jax.jit(transformed(lambda: jnp.negative(x), handlers=PLUS_TWO))()

    x = jnp.arange(3.0)
    close(transformed(outer, handlers=PLUS_ONE)(Plus(x)), x + 2.0)


def test_handlers_brought_along_change_no_name_in_the_compiled_program() -> None:
    f = transformed(lambda x: jnp.negative(x) * 2.0, handlers=PLUS_TWO)
    text = jax.jit(f).lower(jnp.ones(3)).as_text(debug_info=True)
    assert 'loc("jit(<lambda>)/neg"' in text


# --- default_handler, materialize -----------------------------------------------------------------


class Base(tq.ImplicitArray, materialization="allow"):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x


class Derived(Base): ...


def test_a_handler_defers_to_the_one_of_the_base_class() -> None:
    ran = []

    def of_base(x: Base, /) -> Array:
        ran.append("base")
        return -x.x

    def of_derived(x: Derived, /) -> Array:
        ran.append("derived")
        return tq.default_handler(ops.neg, x)

    table = tq.HandlerTable("t", ops.neg.to(of_base), ops.neg.to(of_derived))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Derived(SAME)), -SAME)
    assert ran == ["derived", "base"]


def test_the_last_handler_defers_to_materialization() -> None:
    ran = []

    def only(x: Base, /) -> Array:
        ran.append(1)
        return tq.default_handler(lax.neg_p, x)  # type: ignore[no-any-return]  # a primitive of lax is Any

    table = tq.HandlerTable("t", ops.neg.to(only))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Base(SAME)), -SAME)
    assert ran == [1]


def test_default_handler_on_other_operands_starts_from_the_first_handler() -> None:
    depth = []

    def halved(x: Base, /) -> Array:
        depth.append(1)
        if len(depth) < 4:
            return 2.0 * tq.default_handler(ops.neg, Base(x.x / 2.0))
        return -x.x

    table = tq.HandlerTable("t", ops.neg.to(halved))
    close(tq.use_implicit_args(jnp.negative, handlers=table)(Base(SAME)), -SAME)
    assert len(depth) == 4


def test_default_handler_passes_params_on() -> None:
    def summed(x: Base, /, **params: Any) -> Array:
        return tq.default_handler(ops.reduce_sum, x, **params)

    table = tq.HandlerTable("t", ops.reduce_sum.to(summed))
    got = transformed(lambda x: x.sum(axis=1), handlers=table)(Base(SAME))
    close(got, SAME.sum(axis=1))


def test_default_handler_with_swapped_operands_still_goes_on() -> None:
    ran = []

    def minus(x: Base, y: Array, /) -> Array:
        ran.append(1)
        return tq.default_handler(ops.mul, x, y)

    table = tq.HandlerTable("t", ops.mul.to(minus, commutative=True))
    both: tuple[Callable[..., Any], ...] = (lambda x: x * SAME, lambda x: SAME * x)
    for f in both:
        close(tq.use_implicit_args(f, handlers=table)(Base(SAME)), SAME * SAME)
    assert len(ran) == 2


def test_default_handler_outside_applies_the_primitive_with_dispatch() -> None:
    with tq.installed(TABLE):
        result = tq.default_handler(ops.neg, CASES["scaled"].both()[0])
    assert type(result) is Scaled
    close(tq.materialize(result), -CASES["scaled"].both()[1])


def test_default_handler_of_dense_operands_is_the_primitive() -> None:
    close(tq.default_handler(lax.add_p, SAME, SAME), SAME + SAME)


def test_default_handler_gives_a_list_where_the_primitive_has_several_results() -> None:
    result = tq.default_handler(ops.split, Plain(SAME), sizes=(1, 3), axis=1)
    assert isinstance(result, list)
    close(list(result), [SAME[:, :1], SAME[:, 1:]])


def test_default_handler_wants_a_primitive_first() -> None:
    with pytest.raises(TypeError, match=r"a primitive or an op as its first argument, not 'neg'"):
        tq.default_handler("neg", SAME)  # type: ignore[call-overload]  # that is the mistake


def test_materialize_of_a_tree_makes_each_implicit_array_dense() -> None:
    value, dense = CASES["nested"].both()
    tree: dict[str, Any] = {"a": [value, 3, "s"], "b": SAME}
    got = tq.materialize(tree)
    assert got["a"][1:] == [3, "s"]
    assert got["b"] is SAME
    close(got["a"][0], dense)


def test_materialize_inside_gives_the_dense_array() -> None:
    value, dense = CASES["lora"].both()
    close(implicit(lambda w: tq.materialize(w))(value), dense)
    close(implicit(lambda w: tq.materialize({"w": w.T}))(value), {"w": dense.T})
    close(jax.jit(implicit(lambda w: w.materialize() + 1.0))(value), dense + 1.0)
