"""The argument that an implicit array is, as the warning and the errors name it."""

from __future__ import annotations

import functools
import gc
import re
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax
from jax.tree_util import SequenceKey
from jaxtyping import Float

import typedqax as tq
from tests.implicit_world import numbers, transformed
from typedqax import ops
from typedqax._argument import Argument

ONE = numbers(3, 3, 3)


class Loud(tq.ImplicitArray):
    """Says when it becomes dense."""

    x: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return self.x


class Scaled(tq.ImplicitArray, materialization="allow"):
    """Its field may be implicit."""

    inner: Float[tq.ArrayValue, "m n"]

    def materialize(self) -> Float[Array, "m n"]:
        return self.inner * 2.0


def turn(x: Float[Loud, "m n"], /, *, permutation: tuple[int, ...]) -> Float[Loud, "n m"]:
    return Loud(x.x.T)


def negate(x: Loud, /) -> Loud:
    return Loud(-x.x)


TABLE = tq.HandlerTable("t", ops.transpose.to(turn), ops.neg.to(negate))
LOUD = Loud(ONE)


def told(call: Callable[[], Any]) -> list[str]:
    """The arguments that the warnings of a call name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    first = [str(each.message).splitlines()[0] for each in caught]
    found = [re.search(r"; it (is|comes from) the argument (.*)\.$", line) for line in first]
    return ["" if each is None else f"{each[1]} {each[2]}" for each in found]


# --- what it is called ----------------------------------------------------------------------------


def in_a_tree(params: Any, x: Array) -> Any:
    return jnp.sin(params["h"][0]["attn"]["kernel"]) + x


def rest(x: Array, *weights: Array) -> Any:
    return jnp.sin(weights[1]) + x


def keywords(x: Array, **weights: Array) -> Any:
    return jnp.sin(weights["scale"]) + x


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    weight: Array

    @tq.use_implicit_args
    def __call__(self, x: Array) -> Array:
        return jnp.sin(self.weight) + x


NAMED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = {
    "a tree": (
        in_a_tree,
        ({"h": [{"attn": {"kernel": LOUD}}]}, ONE),
        {},
        "params['h'][0]['attn']['kernel']",
    ),
    "by keyword": (
        in_a_tree,
        (),
        {"x": ONE, "params": {"h": ({"attn": {"kernel": LOUD}},)}},
        "params['h'][0]['attn']['kernel']",
    ),
    "of many": (rest, (ONE, ONE, LOUD), {}, "weights[1]"),
    "of keywords": (keywords, (ONE,), {"scale": LOUD}, "scale"),
    "partial": (functools.partial(rest, ONE), (ONE, LOUD), {}, "weights[1]"),
    "jitted": (
        jax.jit(in_a_tree),
        ({"h": [{"attn": {"kernel": LOUD}}]}, ONE),
        {},
        "params['h'][0]['attn']['kernel']",
    ),
}


@pytest.mark.parametrize(("f", "args", "kwargs", "name"), NAMED.values(), ids=NAMED.keys())
def test_it_is_named_as_the_function_names_it(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> None:
    assert told(lambda: transformed(f)(*args, **kwargs)) == [f"is {name}"]


def test_the_object_of_a_method_is_an_argument() -> None:
    assert told(lambda: Layer(LOUD)(ONE)) == ["is self.weight"]


def test_a_function_that_tells_no_names_is_given_numbers() -> None:
    class Unsigned:
        __signature__ = "none"

        def __call__(self, x: Array, w: Array) -> Array:
            return jnp.sin(w) + x

    assert told(lambda: transformed(Unsigned())(ONE, LOUD)) == ["is args[1]"]


def test_operators_outside_a_transform_name_none() -> None:
    assert told(lambda: LOUD + 1.0) == [""]


def test_a_long_path_is_shortened_in_its_middle() -> None:
    tree: Any = LOUD
    for _ in range(100):
        tree = {"abcdefghij": tree}

    def dig(params: Any) -> Any:
        while isinstance(params, dict):
            params = params["abcdefghij"]
        return jnp.sin(params)

    (text,) = told(lambda: transformed(dig)(tree))
    assert len(text) < 220
    assert text.startswith("is params['abcdefghij']")
    assert " ... " in text
    assert text.endswith("'abcdefghij']")


# --- through what it went -------------------------------------------------------------------------


def test_what_a_handler_computed_comes_from_the_argument() -> None:
    f = transformed(lambda w: jnp.sin(-w.T), handlers=TABLE)
    assert told(lambda: f(LOUD)) == ["comes from w through transpose and neg"]


def four_times(f: Callable[[Any], Any], x: Any) -> Any:
    return f(f(f(f(x))))


def test_a_long_way_is_cut() -> None:
    f = transformed(lambda w: jnp.sin(four_times(jnp.negative, w)), handlers=TABLE)
    assert told(lambda: f(LOUD)) == ["comes from w through neg, neg, neg and more"]


def test_a_handler_that_gives_its_operand_back_gives_the_argument() -> None:
    def same(x: Loud, /) -> Loud:
        return x

    table = tq.HandlerTable("t", ops.neg.to(same))
    assert told(lambda: transformed(lambda w: jnp.sin(-w), handlers=table)(LOUD)) == ["is w"]


def test_what_two_arguments_made_comes_from_neither() -> None:
    def add(x: Loud, y: Loud, /) -> Loud:
        return Loud(x.x + y.x)

    table = tq.HandlerTable("t", ops.add.to(add))
    f = transformed(lambda v, w: jnp.sin(v + w), handlers=table)
    assert told(lambda: f(LOUD, LOUD)) == [""]


def test_an_implicit_field_is_named_in_the_argument() -> None:
    f = transformed(lambda params: jnp.sin(params["w"]))
    assert told(lambda: f({"w": Scaled(LOUD)})) == ["is params['w'].inner"]


def test_what_a_handler_does_with_its_operand_is_about_the_argument() -> None:
    def sine(x: Scaled, /) -> Array:
        return jnp.sin(tq.default_handler(lax.mul_p, x.inner, jnp.float32(2)))

    def cosine(x: Loud, /) -> Any:
        return x + 1.0

    table = tq.HandlerTable("t", ops.sin.to(sine), ops.cos.to(cosine))
    f = transformed(lambda w: jnp.sin(w), handlers=table)
    assert told(lambda: f(Scaled(LOUD))) == ["is w.inner"]
    assert told(lambda: transformed(lambda w: jnp.cos(w), handlers=table)(LOUD)) == ["is w"]


# --- inside inner functions -----------------------------------------------------------------------


@jax.custom_jvp
def with_jvp(x: Array) -> Array:
    return jnp.sin(x)


with_jvp.defjvp(lambda xs, ts: (jnp.sin(xs[0]), ts[0] * jnp.cos(xs[0])))


@jax.custom_vjp
def with_vjp(x: Array) -> Array:
    return jnp.sin(x)


with_vjp.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (g * jnp.cos(x),))

INNER: dict[str, Callable[[Any], Any]] = {
    "jit": jax.jit(jnp.sin),
    "jit in jit": jax.jit(lambda x: jax.jit(jnp.sin)(x)),
    "checkpoint": jax.checkpoint(jnp.sin),
    "cond": lambda x: lax.cond(True, jnp.sin, jnp.cos, x),
    "scan constant": lambda x: lax.scan(lambda c, _: (c + jnp.sin(x), None), ONE, None, length=2),
    "custom_jvp": with_jvp,
    "custom_vjp": with_vjp,
    "grad": jax.grad(lambda x: jnp.sum(jnp.sin(x))),
    "vmap": jax.vmap(jnp.sin),
    "relu": jax.nn.relu,
}


@pytest.mark.parametrize("f", INNER.values(), ids=INNER.keys())
def test_inner_functions_know_the_argument_that_they_were_given(f: Callable[[Any], Any]) -> None:
    found = told(lambda: transformed(lambda params: f(params["w"]))({"w": LOUD}))
    assert set(found) == {"is params['w']"}


def test_a_cached_body_names_the_argument_of_each_caller() -> None:
    inner = jax.jit(lambda x: jnp.sin(x))
    first = transformed(lambda v: inner(v))
    second = transformed(lambda params: inner(params["w"]))
    assert told(lambda: first(LOUD)) == ["is v"]
    assert told(lambda: second({"w": LOUD})) == ["is params['w']"]
    assert told(lambda: first(LOUD)) == ["is v"]


def test_the_result_of_an_inner_function_comes_from_its_operand() -> None:
    inner = jax.jit(lambda unused, x: (x, -x))
    f = transformed(lambda u, w: jnp.sin(inner(u, w)[0]), handlers=TABLE)
    assert told(lambda: f(ONE, LOUD)) == ["is w"]
    g = transformed(lambda u, w: jnp.sin(inner(u, w)[1]), handlers=TABLE)
    assert told(lambda: g(ONE, LOUD)) == ["comes from w through neg"]


LOOPS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "carry of scan": (lambda w: lax.scan(lambda c, _: (c * 2.0, None), w, None, length=2), "is w"),
    "carry of while": (
        lambda w: lax.while_loop(lambda c: c[0, 0] > 2.0, lambda c: jnp.sin(c), w),
        "is w",
    ),
    "scanned": (lambda w: lax.scan(lambda c, x: (c, -x), 0.0, w), "is w"),
    "branches": (
        lambda w: lax.cond(True, lambda v: -v, lambda v: ONE, w),
        "comes from w through neg",
    ),
}


@pytest.mark.parametrize(("f", "name"), LOOPS.values(), ids=LOOPS.keys())
def test_what_loops_and_branches_make_dense_is_named(f: Callable[[Any], Any], name: str) -> None:
    found = told(lambda: transformed(f, handlers=TABLE)(LOUD))
    assert name in found


def test_a_transform_inside_another_names_the_outer_argument() -> None:
    inner = transformed(lambda v: jnp.sin(v), handlers=TABLE)
    assert told(lambda: transformed(lambda params: inner(params["w"]))({"w": LOUD})) == [
        "is params['w']"
    ]


def test_what_was_made_inside_has_no_argument() -> None:
    assert told(lambda: transformed(lambda v: jnp.sin(Loud(ONE) + v))(LOUD))[0] == ""


# --- what it costs --------------------------------------------------------------------------------


def test_nothing_is_kept_alive_by_it() -> None:
    """Neither the values nor the function, though the body of the inner function is remembered."""
    inner = jax.jit(lambda x: jnp.sin(x))
    weight = numbers(0, 3, 3)

    def outer(params: Any) -> Any:
        return inner(params["w"])

    assert told(lambda: transformed(outer)({"w": Loud(weight)})) == ["is params['w']"]
    gone: list[weakref.ref[Any]] = [weakref.ref(weight), weakref.ref(outer)]
    del weight, outer
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_an_operand_s_number_is_all_that_a_rewritten_body_knows() -> None:
    inside = Argument(1, (SequenceKey(0),), ("neg",))
    assert inside.name is None

    def f(a: Any, b: Any) -> None: ...

    callers = [None, Argument(f, (SequenceKey(0), SequenceKey(1)))]
    assert str(inside.within(callers)) == "b[0] through neg"
    assert inside.within([None, None]) is None
