"""What says nothing of an array's numbers makes nothing dense, whatever the class."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import typedqax as tq
from tests.agreement import assert_agrees, assert_same, gradient, low_rank, primitives, rng, use
from tests.implicit_kinds import KINDS, LowRank, Plain, dense, numbers
from typedqax import ops
from typedqax._leafwise import LEAFWISE

pytestmark = pytest.mark.without_leak_checks
SHAPES = {0: (), 1: (3,), 2: (3, 4), 3: (2, 3, 4)}

FUNCTIONS: dict[str, Any] = {
    "stop_gradient": lax.stop_gradient,
    "copy": jnp.copy,
    "device_put": jax.device_put,
    "device_put to a device": lambda w: jax.device_put(w, jax.devices()[1]),
    "optimization_barrier": lambda w: lax.optimization_barrier(w),
    "checkpoint_name": lambda w: checkpoint_name(w, "here"),
    "astype": lambda w: w.astype(w.dtype),
    "convert_element_type": lambda w: lax.convert_element_type_p.bind(
        w, new_dtype=jnp.dtype("float32"), weak_type=False, sharding=None
    ),
    "reduce_precision": lambda w: lax.reduce_precision(w, 8, 23),
    "reshape": lambda w: lax.reshape_p.bind(w, new_sizes=w.shape, dimensions=None, sharding=None),
    "transpose": lambda w: lax.transpose_p.bind(w, permutation=tuple(range(w.ndim))),
    "broadcast_in_dim": lambda w: lax.broadcast_in_dim_p.bind(
        w, shape=w.shape, broadcast_dimensions=tuple(range(w.ndim)), sharding=None
    ),
    "slice": lambda w: lax.slice_p.bind(
        w, start_indices=(0,) * w.ndim, limit_indices=w.shape, strides=None
    ),
    "squeeze": lambda w: lax.squeeze_p.bind(w, dimensions=()),
    "rev": lambda w: lax.rev_p.bind(w, dimensions=()),
    "pad": lambda w: lax.pad_p.bind(w, jnp.float32(1), padding_config=((0, 0, 0),) * w.ndim),
    "tile": lambda w: lax.tile_p.bind(w, reps=(1,) * w.ndim),
    "concatenate": lambda w: lax.concatenate_p.bind(w, dimension=0),
    "reduce_sum": lambda w: lax.reduce_sum_p.bind(w, axes=(), out_sharding=None),
    "reduce_max": lambda w: lax.reduce_max_p.bind(w, axes=(), out_sharding=None),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_array_of_any_kind_stays_what_it_is(kind: str, name: str) -> None:
    value = KINDS[kind].make(rng(), SHAPES[KINDS[kind].ranks[-1]])
    with tq.materialization("error"):
        got = use(FUNCTIONS[name], None)(value)
    assert type(got) is type(value)
    assert jax.tree.structure(got) == jax.tree.structure(value)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(value), strict=True):
        np.testing.assert_array_equal(one, other)


def test_zeros_like_does_not_look_at_the_numbers() -> None:
    with tq.materialization("error"):
        got = use(jax._src.ad_util.zeros_like_p.bind, None)(low_rank())
    assert_same(got, jnp.zeros((3, 4)))


@pytest.mark.parametrize("name", ["stop_gradient", "copy", "optimization_barrier"])
def test_derivatives_are_those_of_the_dense_array(name: str) -> None:
    f = FUNCTIONS[name]
    assert_agrees(lambda w: jnp.sin(f(w)) * f(w), low_rank(), way="grad")
    assert_agrees(jax.grad(lambda w: jnp.sum(jnp.sin(f(w)) * w)), low_rank())


def test_a_barrier_holds_dense_and_implicit_arrays_together() -> None:
    with tq.materialization("error"):
        found = primitives(lambda w, x: lax.optimization_barrier((w, x)), low_rank(), jnp.ones(3))
    assert found["optimization_barrier"] == 1
    assert_agrees(lambda w, x: lax.optimization_barrier((w, x)), low_rank(), jnp.ones(3))


def test_a_checkpoint_policy_that_saves_by_name_finds_the_leaves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def f(w: Any) -> Any:
        return jnp.sum(jnp.sin(checkpoint_name(w * jnp.float32(2), "kept") @ jnp.ones(4)))

    def saved(name: str) -> list[str]:
        policy = jax.checkpoint_policies.save_only_these_names(name)
        kept = jax.checkpoint(use(f), policy=policy)
        assert_same(gradient(kept, low_rank()), gradient(lambda w: f(dense(w)), low_rank()))
        jax.ad_checkpoint.print_saved_residuals(kept, low_rank())
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if "f32[3,2]" in line and "from the argument" not in line]

    assert len(saved("kept")) == 1
    assert not saved("another")


def test_placements_are_those_of_leaves() -> None:
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    split = NamedSharding(mesh, PartitionSpec("i"))
    whole = NamedSharding(mesh, PartitionSpec(None, None))
    w = low_rank(4, 4)
    for put in (jax.device_put, lax.with_sharding_constraint):
        for sharding in (split, whole):
            with tq.materialization("error"):
                got = use(lambda w, p=put, s=sharding: p(w, s))(w)
                compiled = jax.jit(use(lambda w, p=put, s=sharding: p(w, s)))(w)
            assert isinstance(got, LowRank)
            assert_same(dense(got), dense(w))
            assert_same(dense(compiled), dense(w))
    placed = use(lambda p: jax.device_put(p, split))(Plain(numbers(rng(), 4)))
    assert placed.x.sharding == split  # a leaf of the array's own shape goes where the array goes


def test_what_does_change_something_is_not_skipped() -> None:
    w = low_rank(3, 3)
    for f in (
        lambda w: w.T,
        lambda w: w[1:],
        lambda w: w.astype(jnp.float16).astype(jnp.float32),
        lambda w: lax.reduce_precision(w, 8, 7),
        lambda w: lax.rev(w, (0,)),
        lambda w: jnp.sum(w, axis=0),
        lambda w: jnp.pad(w, 1),
        lambda w: lax.tile(w, (2, 1)),
    ):
        assert_agrees(f, w, handlers=None)


def test_a_handler_of_a_type_goes_before_what_is_done_for_all() -> None:
    def stop(w: LowRank, /, **params: Any) -> LowRank:
        return LowRank(lax.stop_gradient(w.a), w.b, w.scale)

    table = tq.HandlerTable("stop", ops.stop_gradient.to(stop))
    got = jax.grad(lambda w: jnp.sum(tq.materialize(use(lax.stop_gradient, table)(w))))(low_rank())
    assert not np.any(got.a)
    assert np.any(got.b)


def test_what_is_done_for_all_goes_before_handlers_for_any_primitive() -> None:
    def anything(op: ops.AnyOp, *operands: Any, **params: Any) -> Any:
        raise AssertionError(op)

    table = tq.HandlerTable("any", ops.any_primitive.to(anything))
    use(lax.stop_gradient, table)(low_rank())
    with pytest.raises(AssertionError, match="sin"):
        use(jnp.sin, table)(low_rank())
    with pytest.raises(AssertionError, match="reshape"):  # a rule that can do nothing comes before
        use(jnp.ravel, table)(low_rank())


def test_the_documented_list_is_what_is_there() -> None:
    from typedqax import _leafwise

    words = set((_leafwise.__doc__ or "").replace("`", " ").replace(",", " ").split())
    assert {name for name in LEAFWISE if not name.startswith("reduce_")} <= words
