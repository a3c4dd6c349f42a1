"""A sample of the law that `python -m tests.laws` checks on thousands of programs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import typedqax as tq
from tests.implicit_kinds import HANDLERS, KINDS, LowRank, Turned, dense, numbers
from tests.laws import DENSE, OUTSIDE, Case, check, check_refusals, compare, look
from tests.programs import Body, Step

pytestmark = pytest.mark.without_leak_checks


def test_implicit_arrays_anywhere_give_what_dense_ones_give() -> None:
    look(25)


def test_what_is_refused_of_a_program_is_what_it_makes_dense_in_the_end() -> None:
    becomes_dense = Body((Step("exp", (0,)), Step("neg", (2,))), (3,))
    program = Body((Step("fori", (0, 1), (becomes_dense,)), Step("sin", (1,))), (2, 3))
    with jax.check_tracer_leaks(False):
        assert check_refusals(
            Case(program, (("zeros", (2, 3)), ("low_rank", (2, 3))), "plain", handlers=True)
        )


@pytest.mark.parametrize("transformation", OUTSIDE)
def test_the_law_holds_under_each_transformation(transformation: str) -> None:
    inner = Body((Step("sin", (0,)), Step("add", (2, 0))), (3,))
    program = Body(
        (
            Step("scan_const", (0, 1), (inner,)),
            Step("cond", (0, 1), (inner, Body((Step("neg", (0,)),), (2,)))),
            Step("custom_vjp", (0, 1), (inner,)),
        ),
        (2, 3, 4),
    )
    arguments = (("low_rank", (2, 3)), ("quantized", (2, 3)))
    if transformation in ("jvp", "linearize"):
        program = Body(program.steps[:2], (2, 3))
    assert check(Case(program, arguments, transformation, handlers=True))


def test_the_law_is_able_to_fail() -> None:
    class Wrong(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> jax.Array:
            return jnp.add(self.x, 1)

    got: Any = tq.use_implicit_args(lambda w: w * 2, handlers=HANDLERS)
    with tq.materialization("allow"), pytest.raises(AssertionError):
        compare(got(Wrong(jnp.ones(3))), jnp.ones(3) * 2)


def test_programs_that_jax_refuses_are_not_taken_for_some_that_keep_the_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.laws.check", lambda case: False)
    with pytest.raises(AssertionError, match="5 of 5 programs are refused by JAX alone"):
        look(5)


# The shortest programs that once broke the law.

SHORTEST = {
    "slices of a leaf are not slices of what it stands for": Case(
        Body((Step("map", (0, 1), (Body((Step("neg", (0,)),), (2,)),)),), (2,)),
        (("turned", (3, 3)), (DENSE, ())),
        "plain",
        handlers=False,
    ),
    "slices of a leafless array may be no smaller ones of it": Case(
        Body((Step("map", (0, 1), (Body((Step("neg", (0,)),), (2,)),)),), (2,)),
        (("counting", (2, 3)), (DENSE, ())),
        "plain",
        handlers=False,
    ),
}


@pytest.mark.parametrize("name", SHORTEST)
def test_programs_that_broke_the_law_keep_it(name: str) -> None:
    assert check(SHORTEST[name])


def test_stacks_of_a_leaf_are_not_stacks_of_what_it_stands_for() -> None:
    def f(w: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda c, _: (c, w), 0, None, length=2)[1]

    turned = Turned(numbers(np.random.default_rng(0), 3, 2))
    compare(dense(tq.use_implicit_args(f)(turned)), f(dense(turned)))


def test_every_kind_is_what_it_stands_for() -> None:
    for name, kind in KINDS.items():
        for rank in kind.ranks:
            value = kind.make(np.random.default_rng(0), (2, 3, 4)[:rank])
            compare(tq.materialize(value), dense(value))
            assert value.shape == dense(value).shape, name
    assert isinstance(KINDS["low_rank"].make(np.random.default_rng(0), (2, 3)), LowRank)
