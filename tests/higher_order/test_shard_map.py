"""shard_map inside the transform: arrays go in and come out by their leaves, whole or split."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AxisType, PartitionSpec

import typedqax as tq
from tests.agreement import X, assert_agrees, assert_same, low_rank, only, rng, use
from tests.implicit_kinds import Counting, LowRank, Plain, Scaled, dense, numbers
from typedqax.arrays import EYE, LORA, ZEROS, Eye, LoraMatrix, Zeros

pytestmark = pytest.mark.without_leak_checks

P = PartitionSpec
MESH = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
LAYERS: LowRank = jax.tree.map(
    lambda *leaves: jnp.stack(leaves), *[low_rank(seed=seed) for seed in range(4)]
)
SHARED = LowRank(LAYERS.a, low_rank().b, 0.5)
XS = numbers(rng(1), 4, 2, 3)
ONES, TWO = jnp.ones((2, 3, 4)), jnp.float32(2)


def shards(f: Any, in_specs: Any, out_specs: Any, *, checked: bool = True) -> Any:
    return jax.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, check_vma=checked)


def products(xs: Any, ws: Any) -> Any:
    return jnp.stack([xs[0] @ ws[0], -(xs[-1] @ ws[-1])])


@pytest.mark.parametrize(
    ("way", "checked"), [("eager", True), ("jit", False), ("jit of grad of jit", True)]
)
def test_shards_give_what_they_give_for_dense_arrays(way: str, checked: bool) -> None:
    f = shards(lambda x, w: lax.psum(jnp.tanh(x @ w), "i"), (P("i"), P()), P(), checked=checked)
    with tq.materialization("error"):
        assert_agrees(f, X, low_rank(), way=way)
    assert only(f, "shard_map", X, low_rank()).params["in_specs"] == (P("i"), P(), P())


@pytest.mark.parametrize("ws", [LAYERS, SHARED], ids=["a stack", "a stack that shares a leaf"])
@pytest.mark.parametrize("way", ["jit", "jit of grad of jit"])
def test_a_stack_is_split_by_its_batch_axes(way: str, ws: LowRank) -> None:
    f = shards(products, (P("i"), P("i")), P("i"))
    with tq.materialization("error"):
        assert_agrees(f, XS, ws, way=way)
        in_specs = only(f, "shard_map", XS, ws).params["in_specs"]
    assert in_specs == (P("i"), P("i"), P("i") if ws is LAYERS else P())


def test_a_field_whose_numbers_depend_on_its_shape_is_not_split() -> None:
    ws = LowRank(Counting(shape=(4, 3, 2), dtype=jnp.float32), LAYERS.b, 0.5)
    assert_agrees(shards(products, (P("i"), P("i")), P("i")), XS, ws)


def test_a_batch_axis_is_split_over_two_axes_of_the_mesh() -> None:
    both = P(("i", "j"))
    with tq.materialization("error"):
        assert_agrees(shards(products, (both, both), both), XS, LAYERS)


@pytest.mark.parametrize(
    ("f", "spec_in", "spec_out", "w"),
    [
        (lambda w: w * jnp.float32(2), P(), P(), low_rank()),
        (lambda w: w * jnp.float32(2), P(None, None), P(None), low_rank()),
        (lambda w: w * jnp.float32(2), P("i"), P("i"), LAYERS),
        (lambda w: w[::-1], P("i", None, None), P("i"), LAYERS),
        (lambda w: w[None], P(), P("j"), low_rank()),
    ],
    ids=["whole", "whole, axis by axis", "split", "split, axis by axis", "a shard each"],
)
@pytest.mark.parametrize("checked", [True, False])
def test_implicit_results_stay_implicit(
    f: Any, spec_in: Any, spec_out: Any, w: LowRank, checked: bool
) -> None:
    sharded = shards(f, spec_in, spec_out, checked=checked)
    with tq.materialization("error"):
        got = assert_agrees(sharded, w)
        assert isinstance(got, LowRank)
        if checked and w is LAYERS:
            assert_agrees(sharded, w, way="jit of grad of jit")


def test_implicit_and_dense_results_come_out_together() -> None:
    f = shards(
        lambda x, w: {"w": w, "x": (x @ w, None)},
        (P("i"), P()),
        {"w": P(), "x": (P("i"), None)},
    )
    with tq.materialization("error"):
        got = assert_agrees(f, X, low_rank())
    assert isinstance(got["w"], LowRank)


class Loud(tq.ImplicitArray):
    """A matrix of which nothing says how it is split."""

    x: tq.ArrayValue

    def materialize(self) -> Any:
        return self.x


def test_what_is_split_otherwise_becomes_dense_with_the_reason_and_the_cure() -> None:
    f = use(shards(lambda w: w, P("i"), P("i")), None)
    with pytest.warns(tq.MaterializationWarning, match=r"(?s)it is sharded.*P\(\)"):
        assert_same(f(Loud(jnp.ones((4, 2)))), jnp.ones((4, 2)))
    g = use(shards(lambda w: w, P(), P("i"), checked=False), None)
    with pytest.warns(tq.MaterializationWarning, match=r"(?s)it comes out in shards.*P\(\)"):
        assert_same(g(Loud(jnp.ones((4, 2)))), jnp.ones((8, 2)))
    assert_agrees(shards(lambda w: w * 2, P(None, "i"), P(None, "i")), low_rank(4, 4))
    assert_agrees(shards(lambda w: w * jnp.float32(2), P("i"), P("i")), SHARED)


def test_a_leaf_of_lower_rank_goes_whole_too() -> None:
    assert_agrees(
        shards(lambda w: jnp.sum(w)[None], P(None, None), P(None)),
        Scaled(low_rank(), jnp.float32(2)),
    )


def test_arrays_that_are_closed_over_and_collectives_of_them() -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        return shards(lambda v: (x @ w)[:, :2] + lax.psum(v, "i"), P("i"), P())(v)

    assert_agrees(f, X, low_rank(), Plain(numbers(rng(1), 4, 2)))


def test_some_axes_of_the_mesh_are_left_to_the_compiler() -> None:
    def f(x: Any, w: Any) -> Any:
        inner: Any = jax.shard_map(
            lambda x, w: x @ w,
            mesh=MESH,
            in_specs=(P("i"), P()),
            out_specs=P("i"),
            axis_names={"i"},
        )
        return inner(x, w)

    assert_agrees(f, X, low_rank(), way="jit")


def test_loops_and_functions_inside_shards_run_the_handlers() -> None:
    square = numbers(rng(11), 4, 3)

    def layers(x: Any, w: Any) -> Any:
        step = jax.checkpoint(jax.jit(lambda x: jnp.tanh((x @ w) @ square)))
        return lax.scan(lambda c, _: (step(c), None), x, None, length=2)[0]

    f = shards(layers, (P("i"), P()), P("i"))
    with tq.materialization("error"):
        assert_agrees(f, X, low_rank(), way="jit of grad of jit")


def test_handlers_need_not_care_over_which_axes_their_operands_vary() -> None:
    w, a, b = numbers(rng(2), 3, 4), numbers(rng(3), 3, 2), numbers(rng(4), 4, 2)

    def f(x: Any, w: Any) -> Any:
        return shards(lambda x, w: (x @ w) * TWO + x @ (w * x[0, 0]), (P("i"), P()), P("i"))(x, w)

    with tq.materialization("error"):
        got = use(f, LORA)(X, LoraMatrix(w=w, a=a, b=b))
        jax.make_jaxpr(jax.grad(lambda x, w: jnp.sum(use(f, LORA)(x, w))))(
            X, LoraMatrix(w=w, a=a, b=b)
        )
    assert_same(got, f(X, w + a @ b.T))


SQUARE = numbers(rng(5), 4, 4)
MADE_OF_NOTHING = {"zeros": (Zeros(shape=(4, 4), dtype=jnp.float32), ZEROS), "eye": (Eye(4), EYE)}
COLLECTIVES: dict[str, Any] = {
    "a product": lambda w, x: lax.psum(x @ w, "i"),
    "an elementwise product": lambda w, x: lax.psum(x * w[:2], "i"),
    "the greater": lambda w, x: lax.pmax(jnp.maximum(x, w[:2]), "i"),
    "a branch": lambda w, x: lax.psum(lax.cond(x[0, 0] > 0, lambda: x, lambda: x @ w), "i"),
    "a carry": lambda w, x: lax.psum(
        lax.scan(lambda c, _: (x @ w, c), x @ w, None, length=2)[0], "i"
    ),
    "made to vary": lambda w, x: lax.psum(lax.pcast(w, "i", to="varying") * TWO, "i"),
}


@pytest.mark.parametrize("kind", MADE_OF_NOTHING)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_what_is_made_of_nothing_varies_where_the_result_would(name: str, kind: str) -> None:
    w, table = MADE_OF_NOTHING[kind]
    f = shards(COLLECTIVES[name], (P(), P("i")), P())
    for way in (f, jax.jit(f)):
        with tq.materialization("allow"):
            got = tq.materialize(use(way, table)(w, SQUARE))
        assert_same(got, f(tq.materialize(w), SQUARE))


@pytest.mark.parametrize("kind", MADE_OF_NOTHING)
@pytest.mark.parametrize("argnum", [0, 1])
def test_a_gradient_through_shards_of_what_is_made_of_nothing(argnum: int, kind: str) -> None:
    w, table = MADE_OF_NOTHING[kind]
    f = shards(lambda w, x: jnp.sin(x @ w), (P(), P("i")), P("i"))
    gradient = jax.grad(lambda w, x: jnp.sum(f(w, x)), argnum)
    with tq.materialization("allow"):
        got = tq.materialize(use(gradient, table)(w, SQUARE))
    assert_same(got, gradient(tq.materialize(w), SQUARE))


def test_a_shard_that_becomes_dense_meets_what_is_the_same_everywhere() -> None:
    for f in (lambda ws: ws + ONES, lambda ws: lax.add(ONES, ws), lambda ws: jnp.cos(ws) * TWO):
        assert_agrees(shards(f, P("i"), P("i")), LAYERS)


INSIDE: dict[str, Any] = {
    "grad": jax.grad(lambda w: jnp.sum(w**2)),
    "vjp": lambda w: jax.vjp(jnp.sin, w)[1](w)[0],
    "scan": lambda w: lax.scan(lambda c, x: (c, x * TWO), TWO, w)[1],
}


@pytest.mark.parametrize("name", INSIDE)
def test_what_is_transformed_inside_is_that_of_each_shard(name: str) -> None:
    """Not, for a gradient, the sum over all shards: an implicit shard differs over the mesh."""
    assert_agrees(shards(INSIDE[name], P("i"), P("i")), LAYERS, way="jit")


def test_a_gradient_is_taken_through_shards_of_an_implicit_array() -> None:
    f = shards(jnp.sin, P("i"), P("i"))
    assert_agrees(jax.grad(lambda w: jnp.sum(f(w))), LAYERS, way="jit")


def test_shards_from_outside_take_leaves() -> None:
    def outside(f: Any) -> Any:
        return shards(f, (P("i"), P("i")), P("i"))

    got = jax.jit(outside(use(products)))(XS, LAYERS)
    assert_same(got, outside(products)(XS, dense(LAYERS)))


STAGED: dict[str, Any] = {
    "jit": lambda w: jax.jit(lambda x: x @ w),
    "dot": lambda w: lambda x: jnp.dot(x, w),
    "scan": lambda w: lambda x: lax.scan(lambda c, row: (c, row @ w), 0.0, x)[1],
    "checkpoint": lambda w: jax.checkpoint(lambda x: x @ w),
    "cond": lambda w: lambda x: lax.cond(jnp.sum(x) < 99, lambda x: x @ w, lambda x: -x @ w, x),
    "grad": lambda w: jax.grad(lambda x: jnp.sum(jnp.sin(jax.jit(lambda x: x @ w)(x)))),
}


@pytest.mark.parametrize("name", STAGED)
@pytest.mark.parametrize("kind", ["leaves", "no leaves", "nested"])
def test_what_is_closed_over_in_what_jax_stages_there_is_the_array(kind: str, name: str) -> None:
    w = {
        "leaves": low_rank(),
        "no leaves": Zeros(shape=(3, 4), dtype=jnp.float32),
        "nested": Plain(low_rank()),
    }[kind]
    want = shards(STAGED[name](tq.materialize(w)), P("i"), P("i"))(X)
    f = shards(STAGED[name](w), P("i"), P("i"))
    for way in (f, jax.jit(f)):
        with tq.materialization("allow"):
            assert_same(tq.materialize(use(way, ZEROS)(X)), want)
