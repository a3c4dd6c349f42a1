"""The law of the transform: of an implicit array, a function gives what it gives of the dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array
from jax._src.core import trace_state_clean

import typedqax as tq
from tests.implicit_world import (
    CASES,
    LoraMatrix,
    Zeros,
    close,
    numbers,
)
from tests.transformed_functions import CUSTOM, FUNCTIONS, LEFT, implicit, loss, wrong_jvp

pytestmark = pytest.mark.without_leak_checks

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


functions = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS.keys())


@functions
@pytest.mark.parametrize("name", ["lora", "zeros", "rows", "nested"])
def test_implicit_equals_materialized(f: Callable[..., Any], name: str) -> None:
    value, dense = CASES[name].both()
    close(tq.materialize(implicit(f)(value)), f(dense))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in CUSTOM])
def test_implicit_equals_materialized_under_jit(name: str) -> None:
    f = FUNCTIONS[name]
    value, dense = CASES["nested"].both()
    close(tq.materialize(jax.jit(implicit(f))(value)), f(dense))


@pytest.mark.parametrize("name", ["nested", "zeros"])
@pytest.mark.parametrize("f", CUSTOM.values(), ids=CUSTOM.keys())
def test_a_custom_rule_decides_the_gradient_in_the_fields(f: Callable[..., Any], name: str) -> None:
    case = CASES[name]
    leaves = case.make(0)

    def total(out: Any) -> Array:
        return sum(
            (jnp.sum(leaf * (i + 1.0)) for i, leaf in enumerate(jax.tree.leaves(out))),
            jnp.zeros(()),
        )

    expected = jax.grad(lambda leaves: total(f(case.meaning(*leaves))))(leaves)
    got = jax.grad(lambda leaves: total(implicit(f)(case.build(*leaves))))(leaves)
    close(got, expected)
    if name == "nested":
        jitted = jax.jit(jax.grad(lambda leaves: total(jax.jit(implicit(f))(case.build(*leaves)))))
        close(jitted(leaves), expected)


@pytest.mark.parametrize("f", CUSTOM.values(), ids=CUSTOM.keys())
def test_a_custom_rule_decides_the_gradient_in_the_represented_array(
    f: Callable[..., Any],
) -> None:
    value, dense = CASES["lora"].both()
    loss: Callable[..., Any] = lambda w: sum(
        (jnp.sum(leaf) for leaf in jax.tree.leaves(f(w))), jnp.zeros(())
    )
    close(tq.materialize(implicit(jax.grad(loss))(value)), jax.grad(loss)(dense))


JVPS = {name: f for name, f in CUSTOM.items() if "vjp" not in name}


@pytest.mark.parametrize("name", ["lora", "nested", "scaled", "rows"])
@pytest.mark.parametrize("f", JVPS.values(), ids=JVPS.keys())
def test_a_custom_jvp_decides_the_tangent_of_the_fields(f: Callable[..., Any], name: str) -> None:
    case = CASES[name]
    primals, tangents = case.make(0), case.make(40)
    got = jax.jvp(lambda *leaves: implicit(f)(case.build(*leaves)), primals, tangents)
    close(tq.materialize(got), jax.jvp(lambda *leaves: f(case.meaning(*leaves)), primals, tangents))


@functions
def test_no_tracer_leaks(f: Callable[..., Any]) -> None:
    value, _ = CASES["nested"].both()
    floats: Callable[..., Any] = lambda tree: [x.astype(jnp.float32) for x in jax.tree.leaves(tree)]
    total: Callable[..., Any] = lambda w: sum(map(jnp.sum, floats(implicit(f)(w))), jnp.zeros(()))
    with jax.checking_leaks():
        jax.make_jaxpr(jax.grad(total))(value)
    assert trace_state_clean()


# --- derivatives ----------------------------------------------------------------------------------


with_leaves = pytest.mark.parametrize("name", [name for name in CASES if name != "zeros"])


@with_leaves
def test_grad_outside_is_the_gradient_in_the_fields(name: str) -> None:
    case = CASES[name]
    value, _ = case.both()
    expected = jax.grad(lambda leaves: loss(case.meaning(*leaves)))(case.make(0))
    gradient = jax.grad(implicit(loss))(value)
    assert type(gradient) is type(value)
    close(tuple(jax.tree.leaves(gradient)), expected)


@with_leaves
def test_value_and_grad_outside_gives_both(name: str) -> None:
    case = CASES[name]
    value, dense = case.both()
    expected = jax.grad(lambda leaves: loss(case.meaning(*leaves)))(case.make(0))
    got, gradient = jax.value_and_grad(implicit(loss))(value)
    close(got, loss(dense))
    close(tuple(jax.tree.leaves(gradient)), expected)


@cases
def test_grad_inside_is_the_gradient_in_the_represented_array(case: Any) -> None:
    value, dense = case.both()
    close(tq.materialize(implicit(jax.grad(loss))(value)), jax.grad(loss)(dense))


@pytest.mark.parametrize("name", ["lora", "nested"])
def test_jit_and_grad_commute_with_the_transform(name: str) -> None:
    case = CASES[name]
    value, _ = case.both()
    expected = jax.grad(lambda leaves: loss(case.meaning(*leaves)))(case.make(0))
    for gradient in (
        jax.grad(jax.jit(implicit(loss)))(value),
        jax.grad(implicit(jax.jit(loss)))(value),
        jax.jit(jax.grad(jax.jit(implicit(jax.jit(loss)))))(value),
    ):
        close(tuple(jax.tree.leaves(gradient)), expected)


def test_grad_of_some_arguments_is_of_those() -> None:
    value, dense = CASES["lora"].both()
    f: Callable[..., Any] = lambda x, w: jnp.sum(jnp.sin(x @ w))
    close(jax.grad(implicit(f))(LEFT, value), jax.grad(f)(LEFT, dense))
    first, second = jax.grad(implicit(f), argnums=(0, 1))(LEFT, value)
    close(first, jax.grad(f)(LEFT, dense))
    assert type(second) is LoraMatrix


def test_grad_by_one_field_is_of_that_field() -> None:
    case = CASES["lora"]
    w, a, b = case.make(0)
    got = jax.grad(lambda a: implicit(loss)(case.build(w, a, b)))(a)
    close(got, jax.grad(lambda a: loss(case.meaning(w, a, b)))(a))


def test_the_gradient_of_a_leafless_array_has_no_numbers() -> None:
    value, _ = CASES["zeros"].both()
    gradient = jax.grad(implicit(loss))(value)
    assert type(gradient) is Zeros
    assert gradient.shape == (3, 4)
    assert sum(leaf.size for leaf in jax.tree.leaves(gradient)) == 0


@with_leaves
def test_jvp_outside_is_the_tangent_of_the_fields(name: str) -> None:
    case = CASES[name]
    value, tangent = case.both()[0], case.both(50)[0]
    got = jax.jvp(implicit(loss), (value,), (tangent,))
    expected = jax.jvp(lambda *leaves: loss(case.meaning(*leaves)), case.make(0), case.make(50))
    close(got, expected)


@with_leaves
def test_vjp_outside_is_the_cotangent_of_the_fields(name: str) -> None:
    case = CASES[name]
    value, _ = case.both()
    out, pullback = jax.vjp(implicit(lambda w: LEFT @ w), value)
    expected, expected_pullback = jax.vjp(lambda *v: LEFT @ case.meaning(*v), *case.make(0))
    close(out, expected)
    ct = numbers(60, 2, 4)
    close(tuple(jax.tree.leaves(pullback(ct)[0])), tuple(expected_pullback(ct)))


def test_second_derivatives_agree() -> None:
    case = CASES["lora"]
    w, a, b = case.make(0)
    f: Callable[..., Any] = lambda w: jnp.sum(wrong_jvp(LEFT @ w) * (LEFT @ w))
    got = jax.jit(jax.hessian(lambda a: implicit(f)(case.build(w, a, b))))(a)
    close(got, jax.jit(jax.hessian(lambda a: f(case.meaning(w, a, b))))(a), 2e-4)


def test_has_aux_passes_implicit_arrays_through() -> None:
    value, dense = CASES["lora"].both()
    f: Callable[..., Any] = lambda w: (loss(w), {"w": w * 2.0})
    gradient, aux = jax.grad(implicit(f), has_aux=True)(value)
    assert type(gradient) is type(aux["w"]) is LoraMatrix
    close(tq.materialize(aux), {"w": dense * 2.0})


def test_a_gradient_taken_inside_can_have_a_class_of_its_own() -> None:
    value, dense = CASES["lora"].both()
    got = implicit(lambda w: jax.grad(lambda x: jnp.sum(x @ w))(LEFT))(value)
    close(tq.materialize(got), jax.grad(lambda x: jnp.sum(x @ dense))(LEFT))
