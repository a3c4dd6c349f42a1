"""Functions with their own vmap rule: the rule stays, though a wrong one is used to see it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.custom_batching import custom_vmap, sequential_vmap
from jaxtyping import Float

import typedqax as tq
from tests.agreement import (
    X,
    assert_agrees,
    assert_same,
    has_dense,
    low_rank,
    only,
    rng,
    staged,
    use,
)
from tests.implicit_kinds import KINDS, LowRank, dense

pytestmark = pytest.mark.without_leak_checks


@custom_vmap
def layer(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


@layer.def_vmap
def tripled(size: int, batched: Any, x: Any, w: Any) -> Any:
    """The rule gives three times too much, and takes one slice after the other."""

    def one(i: Any) -> Any:
        return 3 * jnp.tanh((x[i] if batched[0] else x) @ (w[i] if batched[1] else w))

    return lax.map(one, jnp.arange(size)), True


XS = jnp.stack([X, X + 1])
LAYERS: LowRank = jax.tree.map(lambda *leaves: jnp.stack(leaves), low_rank(), low_rank(seed=1))
SHARED = LowRank(LAYERS.a, low_rank().b, 0.5)

FIRST_FIELD: Any = jax.tree.unflatten(jax.tree.structure(SHARED), (0, None))

MAPPED: dict[str, Any] = {
    "dense": ((0, None), (XS, low_rank())),
    "implicit": ((None, 0), (X, LAYERS)),
    "both": ((0, 0), (XS, LAYERS)),
    "one of the fields": ((None, FIRST_FIELD), (X, SHARED)),
}


@pytest.mark.parametrize("way", ["eager", "jit", "jvp"])
def test_a_function_with_a_vmap_rule_gives_what_it_gives_for_dense_arrays(way: str) -> None:
    assert_agrees(layer, X, low_rank(), way=way)


def test_a_function_with_a_vmap_rule_stays_one_and_runs_the_handlers() -> None:
    with tq.materialization("error"):
        eqn = only(layer, "custom_vmap_call", X, low_rank())
    assert str(eqn.params["rule"]) == str(tripled)
    assert not has_dense(staged(layer, X, low_rank()), (3, 4))


@pytest.mark.parametrize("name", MAPPED)
def test_the_rule_decides_and_gets_stacks_where_fields_are_mapped_outside(name: str) -> None:
    in_axes, (x, w) = MAPPED[name]
    dense_axes = (in_axes[0], None if in_axes[1] is None else 0)
    want = 3 * jax.vmap(lambda x, w: jnp.tanh(x @ w), in_axes=dense_axes)(x, dense(w))
    with tq.materialization("error"):
        got = jax.vmap(use(layer), in_axes=in_axes)(x, w)
        slope = jax.grad(lambda x: jnp.sum(jax.vmap(use(layer), in_axes=in_axes)(x, w)))(x)
    assert_same(got, want)
    assert_same(
        slope,
        jax.grad(lambda x: jnp.sum(jax.vmap(layer, in_axes=dense_axes)(x, dense(w))))(x),
    )


@pytest.mark.parametrize("name", ["dense", "implicit", "both"])
def test_the_rule_decides_where_vmap_is_inside(name: str) -> None:
    in_axes, args = MAPPED[name]
    assert_agrees(jax.vmap(layer, in_axes=in_axes), *args)
    assert_agrees(jax.vmap(sequential_vmap(lambda x, w: x @ w), in_axes=in_axes), *args)


KIND_RANKS = [(kind, rank) for kind in KINDS for rank in KINDS[kind].ranks]


@pytest.mark.parametrize(("kind", "rank"), KIND_RANKS)
def test_a_rule_is_given_the_arrays_of_every_build_that_are_mapped(kind: str, rank: int) -> None:
    shape = (2, 3, 4)[:rank]
    one, two = (KINDS[kind].make(rng(seed), shape) for seed in (0, 1))
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), one, two)
    f = custom_vmap(lambda w: jnp.sin(w))

    @f.def_vmap
    def sines(size: int, batched: Any, w: Any) -> Any:
        assert (batched, w.shape) == ([True], (size, *shape))
        return jnp.sin(w), True

    assert_same(jax.vmap(use(f))(both), jnp.stack([jnp.sin(dense(one)), jnp.sin(dense(two))]))


def test_what_a_rule_cannot_be_given_as_a_stack_becomes_dense_and_is_said() -> None:
    kind = KINDS["turned"]
    both = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), kind.make(rng(0), (2, 3)), kind.make(rng(1), (2, 3))
    )
    f = sequential_vmap(jnp.sin)
    with (
        tq.materialization("error", allow={"sin"}),
        pytest.raises(tq.MaterializationError, match=r"(?s)Turned.*custom_vmap_call.*stacks of"),
    ):
        jax.vmap(use(f))(both)


class Sums(tq.ImplicitArray, materialization="allow"):
    """Running sums, so that a stack of these is not what its stacked field stands for."""

    x: Float[tq.ArrayValue, "*s"]

    def materialize(self) -> jax.Array:
        return jnp.cumsum(self.x, 0)


def test_why_a_stack_is_not_given_to_a_rule_is_said() -> None:
    f = sequential_vmap(jnp.sin)
    allow = tq.materialization("error", allow={"sin"})
    with allow, pytest.raises(tq.MaterializationError) as caught:
        jax.vmap(use(f))(Sums(jnp.ones((2, 3))))
    _, told, advice, *_ = str(caught.value).splitlines()
    assert told == (
        "  - stacks of its fields do not make a stack of it that the vmap rule could be given: "
        "Sums.materialize is not seen to compute each entry from those at its place in the fields"
    )
    assert advice.startswith(
        'This is inside materialization("error"): give its fields to the function, and make the '
        "array there, or let it pass with "
    )


class Outer(tq.ImplicitArray, materialization="allow"):
    """Nothing tells what a stack of it is."""

    left: tq.ArrayValue
    right: tq.ArrayValue

    def materialize(self) -> jax.Array:
        return jnp.outer(self.left, self.right)


def test_of_what_becomes_dense_for_a_rule_the_fields_that_are_not_mapped_are_shared() -> None:
    left, right = jnp.arange(6.0).reshape(2, 3), jnp.arange(2.0) + 1
    axes: Any = jax.tree.unflatten(jax.tree.structure(Outer(left[0], right)), (0, None))
    given = jax.tree.map(
        lambda _, leaf: leaf, axes, Outer(left, right), is_leaf=lambda a: a is None
    )
    got = jax.vmap(use(sequential_vmap(jnp.sin)), in_axes=(axes,))(given)
    assert_same(got, jnp.sin(jnp.stack([jnp.outer(each, right) for each in left])))


def test_what_a_rule_makes_dense_is_said_with_the_argument_that_it_is() -> None:
    f = custom_vmap(lambda x, w: x @ w)
    f.def_vmap(lambda size, batched, x, w: (x @ jnp.cos(w), True))
    with (
        tq.materialization("error"),
        pytest.raises(tq.MaterializationError, match=r"for cos\(.*; it is the argument kernel"),
    ):
        jax.vmap(use(lambda x, kernel: f(x, kernel)), in_axes=(0, None))(XS, low_rank())


def test_a_rule_that_gives_another_structure_is_told_so_by_jax_with_its_name() -> None:
    f = custom_vmap(lambda x, w: x @ w)

    @f.def_vmap
    def gives_two(size: int, batched: Any, x: Any, w: Any) -> Any:
        return (x @ w, x), (True, True)

    with pytest.raises(ValueError, match=r"(?s)gives_two.*does not match that of original"):
        jax.vmap(use(f), in_axes=(0, None))(XS, low_rank())
