"""cond and switch inside the transform."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax

import typedqax as tq
from tests.agreement import X, assert_agrees, assert_same, low_rank, primitives, rng, use
from tests.implicit_kinds import Const, LowRank, Scaled, Zeros, dense, numbers

pytestmark = pytest.mark.without_leak_checks

YES = jnp.bool_(True)
ZEROS = Zeros(shape=(3, 4), dtype=jnp.float32)

CONDS: dict[str, Any] = {
    "both implicit": lambda p, w, x: lax.cond(p, lambda w: w * jnp.float32(2), lambda w: w, w),
    "static data differ": lambda p, w, x: lax.cond(p, lambda w: -w, lambda w: w, w),
    "one dense": lambda p, w, x: lax.cond(p, jnp.sin, lambda w: w, w),
    "closed over": lambda p, w, x: lax.cond(p, lambda x: x @ w, lambda x: x @ (-w), x),
    "several results": lambda p, w, x: lax.cond(
        p, lambda: (w, x, x @ w), lambda: (w, -x, jnp.zeros((2, 4)))
    ),
    "switch": lambda p, w, x: lax.switch(
        p.astype(jnp.int32), [lambda w: w, lambda w: -w, lambda w: w * jnp.float32(3)], w
    ),
    "select": lambda p, w, x: lax.select(p, w, jnp.ones((3, 4))),
    "nested": lambda p, w, x: lax.cond(
        p, lambda w: lax.cond(p, lambda w: w, jnp.negative, w), lambda w: w, w
    ),
}
HEAVY = {"static data differ", "closed over", "several results"}


@pytest.mark.parametrize(
    ("name", "way"),
    [(n, way) for n in CONDS for way in ["eager", "jit of grad of jit"][: 1 + (n in HEAVY)]],
)
@pytest.mark.parametrize("p", [True, False])
def test_a_branch_gives_what_it_gives_for_dense_arrays(name: str, way: str, p: bool) -> None:
    assert_agrees(lambda w, x: CONDS[name](jnp.bool_(p), w, x), low_rank(), X, way=way)


def test_branches_of_one_type_keep_it_and_the_cond() -> None:
    f = CONDS["both implicit"]
    with tq.materialization("error"):
        got = use(f)(YES, low_rank(), X)
        assert primitives(f, YES, low_rank(), X)["cond"] == 1
    assert isinstance(got, LowRank)


def test_branches_of_different_types_become_dense_which_is_said_with_the_reason() -> None:
    class Loud(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            return self.x

    f = use(lambda x: lax.cond(YES, lambda: x, lambda: jnp.zeros(3)))
    for run in (f, jax.jit(f)):
        with pytest.warns(
            tq.MaterializationWarning,
            match=r"(?s)for cond.* at .*test_cond\.py:\d+.*the branches give different types",
        ) as caught:
            got = run(Loud(jnp.ones(3)))
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert_same(got, jnp.ones(3))


def test_only_the_part_that_differs_becomes_dense() -> None:
    two = jnp.float32(2)
    whole, part = Scaled(low_rank(), two), Scaled(numbers(rng(1), 3, 4), two)

    def f(s: Any, t: Any) -> Any:
        return lax.cond(YES, lambda: s * two, lambda: t * two)

    for args in ((whole, part), (part, whole)):
        got = use(f)(*args)
        assert isinstance(got, Scaled)
        assert not tq.is_implicit(got.x)
        assert_same(dense(got), f(*dense(args)))


def test_two_classes_without_data_meet_in_a_dense_array() -> None:
    def f(z: Any, c: Any) -> Any:
        return lax.cond(YES, lambda: jnp.sin(z), lambda: jnp.sin(c))

    assert_agrees(f, ZEROS, Const(jnp.float32(2), shape=(3, 4)))


def test_an_implicit_predicate_and_an_implicit_index_become_numbers() -> None:
    class Flag(tq.ImplicitArray, materialization="allow"):
        p: tq.ArrayValue

        def materialize(self) -> Array:
            return self.p

    def f(p: Any, i: Any, w: Any) -> Any:
        one = lax.cond(p, lambda w: w, jnp.negative, w)
        return lax.switch(i, [lambda w: w, lambda w: w * jnp.float32(2)], one)

    got = use(f)(Flag(YES), Flag(jnp.int32(1)), low_rank())
    assert_same(dense(got), f(YES, jnp.int32(1), dense(low_rank())))


def test_branches_of_different_shapes_are_refused_as_jax_refuses_them() -> None:
    with pytest.raises(TypeError, match="branch"):
        use(lambda w: lax.cond(YES, lambda: w, lambda: w.T))(low_rank())


def test_a_batched_predicate_selects() -> None:
    def f(w: Any, ps: Any) -> Any:
        return jax.vmap(lambda p: lax.cond(p, lambda: X @ w, lambda: X @ -w))(ps)

    assert_agrees(f, low_rank(), jnp.array([True, False]))


def test_weak_and_strong_leaves_meet() -> None:
    def f(p: Any) -> Any:
        two: Any = 2.0
        weak, strong = Const(two, shape=(3,)), Const(jnp.float32(3), shape=(3,))
        return lax.cond(p, lambda c, d: jnp.sin(c), lambda c, d: jnp.sin(d), weak, strong)

    for p in (True, False):
        got = tq.materialize(use(lambda c, p: f(p))(ZEROS, jnp.bool_(p)))
        assert_same(got, jnp.full(3, jnp.sin(jnp.float32(2 if p else 3))))


def test_effects_in_branches_happen() -> None:
    seen: list[int] = []

    def f(w: Any) -> Any:
        def loud(w: Any) -> Any:
            jax.debug.callback(lambda: seen.append(1))
            return w

        return lax.cond(YES, loud, lambda w: w, w)

    use(f)(low_rank())
    jax.jit(use(f))(low_rank())
    jax.effects_barrier()
    assert len(seen) == 2


def test_numbers_that_branches_close_over_are_theirs() -> None:
    table = numbers(rng(3), 3, 4)
    assert_agrees(lambda w: lax.cond(YES, lambda: w + table, lambda: w - table), low_rank())
