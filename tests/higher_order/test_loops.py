"""Loops inside the transform: implicit constants, carries, scanned arrays and stacked results."""

from __future__ import annotations

import types
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax
from jaxtyping import Float, Shaped

import typedqax as tq
from tests.agreement import (
    WAYS,
    X,
    assert_agrees,
    assert_same,
    has_dense,
    low_rank,
    only,
    primitives,
    rng,
    staged,
    use,
)
from tests.implicit_kinds import (
    HANDLERS,
    KINDS,
    Const,
    Counting,
    LowRank,
    Plain,
    Scaled,
    Turned,
    Zeros,
    dense,
    numbers,
)
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks

MOST = ["eager", "jit of grad of jit"]
HEAVY = {"constant", "carry", "carries change one another", "nested", "fori with a constant"}
"""What is differentiated and compiled too; the rest of the grid is run as it is."""


def grid(programs: dict[str, Any], ways: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("name", "way"),
        [(name, way) for name in programs for way in (ways if name in HEAVY else ways[:1])],
    )


SQUARE = numbers(rng(11), 4, 3)


def step(x: Any, w: Any) -> Any:
    """As wide as before."""
    return jnp.tanh((x @ w) @ SQUARE)


def stacked(length: int) -> LowRank:
    layers = [low_rank(seed=seed) for seed in range(length)]
    tree: LowRank = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
    return tree


# --- scan ----------------------------------------------------------------------------------------

SCANS: dict[str, Any] = {
    "constant": lambda x, w: lax.scan(lambda c, _: (step(c, w), c), x, None, length=3),
    "length 0": lambda x, w: lax.scan(lambda c, _: (step(c, w), c), x, None, length=0),
    "length 1": lambda x, w: lax.scan(lambda c, _: (step(c, w), c), x, None, length=1),
    "reverse": lambda x, w: lax.scan(lambda c, _: (step(c, w), c), x, None, 3, reverse=True),
    "unroll": lambda x, w: lax.scan(lambda c, _: (step(c, w), c), x, None, length=3, unroll=2),
    "unroll all": lambda x, w: lax.scan(lambda c, _: (step(c, w), c), x, None, 3, unroll=True),
    "carry": lambda x, w: lax.scan(lambda c, _: (c * jnp.float32(2), x @ c), w, None, length=3),
    "carry of another static type": lambda x, w: lax.scan(lambda c, _: (-c, x @ c), w, None, 3),
    "carry becomes dense": lambda x, w: lax.scan(lambda c, _: (jnp.sin(c), x @ c), w, None, 3),
    "carry begins dense": lambda x, w: lax.scan(lambda c, _: (w, c), jnp.ones((3, 4)), None, 3),
    "carries change one another": lambda x, w: lax.scan(
        lambda c, _: ((c[1], c[2], jnp.sin(c[0])), x @ c[1]), (w, w, w), None, length=4
    ),
    "nested": lambda x, w: lax.scan(
        lambda c, _: lax.scan(lambda d, _: (step(d, w), d), c, None, length=2), x, None, length=2
    ),
}


@grid(SCANS, MOST)
def test_a_scan_gives_what_it_gives_for_dense_arrays(name: str, way: str) -> None:
    assert_agrees(SCANS[name], X, low_rank(), way=way)


def test_a_scan_stays_one_and_uses_the_handlers_inside() -> None:
    jaxpr = staged(SCANS["constant"], X, low_rank())
    assert primitives(SCANS["constant"], X, low_rank())["scan"] == 1
    assert not has_dense(jaxpr, (3, 4))


@pytest.mark.parametrize("way", MOST)
def test_stacked_layers_are_scanned_as_single_ones(way: str) -> None:
    with tq.materialization("error"):
        assert_agrees(
            lambda x, ws: lax.scan(lambda c, w: (step(c, w), c), x, ws), X, stacked(3), way=way
        )


def test_a_handler_sees_the_type_of_one_layer() -> None:
    shapes = []

    def times(x: Float[Array, "b m"], w: Float[LowRank, "m n"], /, **params: Any) -> Array:
        shapes.append(w.shape)
        return (w.scale * (x @ w.a)) @ w.b.T

    table = tq.HandlerTable("seen", ops.dot_general.to(times))
    use(lambda x, ws: lax.scan(lambda c, w: (step(c, w), None), x, ws), table)(X, stacked(3))
    assert shapes == [(3, 4)]


@pytest.mark.parametrize("way", MOST)
def test_a_leaf_that_all_layers_share_is_a_constant_of_the_scan(way: str) -> None:
    layers = LowRank(stacked(3).a, low_rank().b, 0.5)

    def f(x: Any, ws: Any) -> Any:
        return lax.scan(lambda c, w: (step(c, w), w.T), x, ws)

    with tq.materialization("error"):
        eqn = only(f, "scan", X, layers)
        assert_agrees(f, X, layers, way=way)
    assert eqn.params["num_consts"] == 2  # the shared leaf, and the dense matrix in `step`


def test_layers_of_implicit_fields_are_scanned_by_their_own_batch_axes() -> None:
    class Outer(tq.ImplicitArray):
        inner: Float[tq.ArrayValue, "m n"]

        def materialize(self) -> Float[Array, "m n"]:
            return jnp.multiply(2, self.inner)

    def times(x: Array, w: Outer, /, **params: Any) -> Array:
        return jnp.multiply(jnp.float32(2), x @ w.inner)

    table = tq.HandlerTable("outer", HANDLERS, ops.dot_general.to(times))
    with tq.materialization("error"):
        got = use(lambda x, ws: lax.scan(lambda c, w: (step(c, w), None), x, ws)[0], table)(
            X, Outer(stacked(3))
        )
    want = lax.scan(lambda c, w: (step(c, w), None), X, 2 * dense(stacked(3)))[0]
    assert_same(got, want)


@pytest.mark.parametrize("kind", [Zeros, Counting], ids=["one number", "many numbers"])
def test_layers_of_fields_without_leaves_are_those_of_the_whole(kind: Any) -> None:
    field = kind(shape=(3, 3, 2), dtype=jnp.float32)
    layers = LowRank(field, stacked(3).b)

    def f(x: Any, ws: Any) -> Any:
        return lax.scan(lambda c, w: (step(c, w), -w), x, ws)

    whole = jnp.einsum("kmr,knr->kmn", field.materialize(), layers.b)
    assert_same(dense(use(f)(X, layers)), f(X, whole))


@pytest.mark.parametrize(
    ("kind", "stays"),
    [
        ("zeros", True),
        ("const", True),
        ("turned", False),
        ("counting", False),
        ("plain", False),
        ("low_rank", False),
    ],
)
@pytest.mark.parametrize("shape", [(3, 3), (3, 2)])
def test_slices_are_taken_of_leaves_only_where_they_are_slices_of_the_array(
    kind: str, stays: bool, shape: tuple[int, int]
) -> None:
    seen: list[bool] = []

    def f(xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            seen.append(tq.is_implicit(x))
            return c + jnp.sum(x), jnp.sin(x)

        return lax.scan(body, jnp.float32(0), xs)

    xs = KINDS[kind].make(rng(), shape)
    got = use(f)(xs)
    assert_same(dense(got), f(dense(xs)))
    assert tq.is_implicit(got[1]) == stays


BOTH_WAYS: dict[str, Any] = {
    "layers": stacked(3),
    "zeros": Zeros(shape=(3, 2), dtype=jnp.float32),
    "const": Const(jnp.float32(2), shape=(3, 2)),
    "quantized": jax.tree.map(
        lambda *leaves: jnp.stack(leaves),
        *[KINDS["quantized"].make(rng(seed), (3, 4)) for seed in range(3)],
    ),
    "zeros inside": LowRank(Zeros(shape=(3, 3, 2), dtype=jnp.float32), stacked(3).b),
    "const inside": LowRank(Const(jnp.float32(2), shape=(3, 3, 2)), stacked(3).b),
    "shared beside zeros": LowRank(Zeros(shape=(3, 3, 2), dtype=jnp.float32), low_rank().b),
}


@pytest.mark.parametrize(
    "how",
    [{}, {"reverse": True}, {"unroll": 2}, {"unroll": True}],
    ids=["plain", "reverse", "unroll", "unroll all"],
)
@pytest.mark.parametrize("kind", BOTH_WAYS)
def test_slices_and_stacks_of_every_build_stay_implicit(kind: str, how: dict[str, Any]) -> None:
    xs = BOTH_WAYS[kind]

    def f(xs: Any) -> Any:
        return lax.scan(lambda c, x: (c + 1, x), 0, xs, **how)

    with tq.materialization("error"):
        _, got = use(f)(xs)
    assert type(got) is type(xs)
    assert_same(dense(got), dense(xs))


@pytest.mark.parametrize("kind", ["layers", "zeros", "quantized"])
def test_a_loop_of_no_steps_over_slices_gives_empty_stacks(kind: str) -> None:
    none = jax.tree.map(lambda leaf: leaf[:0], BOTH_WAYS[kind])
    assert_agrees(lambda xs: lax.scan(lambda c, x: (jnp.sum(x), x * 2), jnp.float32(1), xs), none)


def test_a_map_over_layers_runs_the_handlers_and_gives_layers() -> None:
    with tq.materialization("error"):
        assert_agrees(lambda x, ws: lax.map(lambda w: x @ w, ws), X, stacked(3))
        got = assert_agrees(lambda ws: lax.map(lambda w: w.T, ws), stacked(3))
    assert isinstance(got, LowRank)


def test_a_filling_that_depends_on_the_shape_is_not_sliced() -> None:
    class Even(tq.ImplicitArray, materialization="allow"):
        def materialize(self) -> Array:
            return jnp.full(self.shape, 1 / self.size, self.dtype)

    even = Even(shape=(2, 3), dtype=jnp.float32)
    f: Any = lambda e: lax.scan(lambda c, x: (c, jnp.sum(x)), 0, e)[1]
    assert_same(use(f)(even), jnp.full(2, 0.5, jnp.float32))
    inside = LowRank(Even(shape=(2, 3, 1), dtype=jnp.float32), jnp.ones((2, 4, 1)))
    assert_same(use(f)(inside), jnp.full(2, 2, jnp.float32))


def test_results_of_annotated_classes_are_stacked_as_they_are() -> None:
    def f(w: Any) -> Any:
        return lax.scan(lambda c, s: (c, w.T * s), 0, jnp.arange(3.0))[1]

    with tq.materialization("error"):
        got = use(f)(low_rank())
    assert isinstance(got, LowRank)
    assert got.shape == (3, 4, 3)
    assert_same(dense(got), f(dense(low_rank())))


def test_what_becomes_dense_for_a_scan_is_said_once_with_the_user_s_line() -> None:
    class Loud(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            return self.x

    with pytest.warns(tq.MaterializationWarning, match="for scan.*test_loops.py") as caught:
        use(lambda x: lax.scan(lambda c, _: (jnp.ones(3), None), x, None, length=2)[0])(
            Loud(jnp.ones(3))
        )
    assert len(caught) == 1


def test_lengths_that_differ_are_refused_as_jax_refuses_them() -> None:
    with pytest.raises(ValueError, match=r"3.*2|2.*3"):
        use(lambda a, b: lax.scan(lambda c, ab: (c, ab[0] @ ab[1]), 0, (a, b)))(
            stacked(3), jnp.ones((2, 4, 3))
        )


def test_a_carry_keeps_its_weak_type_where_jax_keeps_it() -> None:
    def f(w: Any) -> Any:
        count = lax.scan(lambda c, _: (c * 2.0, w @ SQUARE), 1.0, None, length=2)[0]
        return jnp.ones(2, jnp.bfloat16) * count

    with jax.numpy_dtype_promotion("standard"):
        assert_agrees(f, low_rank())


# --- scan, over fields that share the shape of the array -----------------------------------------


class Unit(tq.ImplicitArray, materialization="error"):
    """Numbers in a unit, which is lost where they become dense."""

    value: Shaped[tq.ArrayValue, "*s"]
    unit: str = tq.aux_field(default="m")

    def materialize(self) -> Array:
        return self.value


class Blend(tq.ImplicitArray, materialization="allow"):
    """One of two numbers, and a share of the other."""

    a: Float[tq.ArrayValue, "*s"]
    b: Float[tq.ArrayValue, "*s"]
    share: Float[tq.ArrayValue, ""]

    def materialize(self) -> Array:
        a, b = self.a, self.b
        return jnp.where(a > b, a, jnp.clip(b, -0.5, 0.5)) + self.share * jnp.sin(a) * 2


def blend(*shape: int) -> Blend:
    return Blend(numbers(rng(1), *shape), numbers(rng(2), *shape), jnp.float32(0.25))


def blended(w: Blend) -> Array:
    """By hand."""
    chosen = jnp.where(w.a > w.b, w.a, jnp.minimum(jnp.maximum(w.b, -0.5), 0.5))
    return chosen + 2 * w.share * jnp.sin(w.a)


def unit_through(op: ops.UnaryOp, x: Unit, /, **params: Any) -> Unit:
    return Unit(op.bind(x.value, **params), x.unit)


def unit_scaled(x: Unit, y: Float[Array, "..."], /) -> Unit:
    return Unit(x.value * y, x.unit)


def unit_sum(x: Unit, y: Unit, /) -> Unit:
    return Unit(x.value + y.value, x.unit)


UNITS = tq.HandlerTable(
    "units",
    (ops.structural | ops.convert_element_type | ops.reduce_sum).to(unit_through),
    ops.mul.to(unit_scaled),
    ops.add.to(unit_sum),
)

HOWS: dict[str, dict[str, Any]] = {
    "plain": {},
    "reverse": {"reverse": True},
    "unroll": {"unroll": 2},
    "unroll all": {"unroll": True},
}


SHAPES = [(3,), (3, 2), (3, 2, 2), (1, 2), (0, 2)]


@pytest.mark.parametrize(
    ("shape", "how"),
    [
        *[pytest.param((3, 2), how, id=name) for name, how in HOWS.items()],
        *[pytest.param(shape, {}, id=str(shape)) for shape in SHAPES],
    ],
)
def test_fields_that_share_the_shape_are_sliced_and_stacked_as_the_array_is(
    shape: tuple[int, ...], how: dict[str, Any]
) -> None:
    def f(xs: Any) -> Any:
        zero = xs[0] * jnp.float32(0) if len(xs.shape) < 2 else jnp.sum(xs, 0) * jnp.float32(0)
        return lax.scan(lambda c, x: (c + x, c + x * jnp.float32(2)), zero, xs, **how)

    value = numbers(rng(), *shape)
    last, every = use(f, UNITS)(Unit(value, "km"))
    assert (type(last), type(every)) == (Unit, Unit)
    assert (last.unit, every.unit) == ("km", "km")
    assert_same((last.value, every.value), f(value))


@pytest.mark.parametrize("way", WAYS)
def test_a_scan_of_fields_that_share_the_shape_is_that_of_the_array(way: str) -> None:
    def f(xs: Any) -> Any:
        return lax.scan(lambda c, x: (c + jnp.sum(x), x.T), jnp.float32(0), xs)

    w = blend(3, 2, 2)
    got = WAYS[way](lambda w: f_of_materialized(use(f), w), w)
    assert_same(got, WAYS[way](lambda w: f(blended(w)), w))


def f_of_materialized(f: Any, w: Any) -> Any:
    return tq.materialize(f(w))


def test_fields_that_share_the_shape_are_sliced_under_vmap_outside_and_inside() -> None:
    f: Any = lambda xs: lax.map(lambda x: x * jnp.float32(2), xs)
    value = numbers(rng(), 2, 3, 4)
    outside = jax.vmap(use(f, UNITS), in_axes=1)(Unit(value))
    inside = use(jax.vmap(f, in_axes=1), UNITS)(Unit(value))
    for got in (outside, inside):
        assert isinstance(got, Unit)
        assert_same(got.value, jax.vmap(f, in_axes=1)(value))


def test_numbers_beside_fields_that_share_the_shape_are_shared_by_slices() -> None:
    seen: list[tuple[int, ...]] = []

    def total(w: Blend, /, *, axes: tuple[int, ...], **params: Any) -> Array:
        seen.append(w.shape)
        return jnp.sum(blended(w), axes)

    table = tq.HandlerTable("totals", ops.reduce_sum.to(total))
    assert_same(
        use(lambda xs: lax.map(jnp.sum, xs), table)(blend(3, 2)), blended(blend(3, 2)).sum(1)
    )
    assert_same(use(lambda xs: lax.map(lambda x: x + x, xs))(blend(3)), 2 * blended(blend(3)))
    assert set(seen) == {(2,)}


def test_results_of_another_dtype_are_stacked_alike() -> None:
    f: Any = lambda xs: lax.map(lambda x: x.astype(jnp.bfloat16), xs)
    got = use(f, UNITS)(Unit(numbers(rng(), 3, 2)))
    assert isinstance(got, Unit)
    assert_same(got.value, numbers(rng(), 3, 2).astype(jnp.bfloat16))


def test_arrays_in_fields_that_share_the_shape_are_sliced_where_they_can_be() -> None:
    f: Any = lambda xs: lax.map(lambda x: x.T, xs)
    table = tq.HandlerTable("both", UNITS, HANDLERS)
    got = use(f, table)(Unit(Zeros(shape=(3, 2, 1), dtype=jnp.float32)))
    assert isinstance(got, Unit)
    assert isinstance(got.value, Zeros)
    assert got.shape == (3, 1, 2)
    with pytest.raises(tq.MaterializationError, match="in its field value, its fields have no"):
        use(f, UNITS)(Unit(low_rank()))


class Of(tq.ImplicitArray, materialization="allow"):
    """What is to be sliced by its own shape, if each entry were computed alike."""

    v: Float[tq.ArrayValue, "*s"]


class RunningSums(Of):
    def materialize(self) -> Array:
        return jnp.cumsum(self.v, 0)


class Flipped(Of):
    def materialize(self) -> Array:
        return self.v[::-1]


class Normalized(Of):
    def materialize(self) -> Array:
        return self.v / jnp.max(self.v)


class Ramp(Of):
    def materialize(self) -> Array:
        return self.v * lax.broadcasted_iota(jnp.float32, self.v.shape, 0)


class ByRank(Of):
    def materialize(self) -> Array:
        return self.v * 2 if self.v.ndim > 1 else self.v


class BySize(Of):
    def materialize(self) -> Array:
        return self.v * self.v.size


class BesideRows(Of):
    def materialize(self) -> Array:
        return self.v + ROWS


class OnlyMatrices(Of):
    def materialize(self) -> Array:
        if self.v.ndim != 2:
            raise ValueError("a matrix is due")
        return self.v * 3


class TwoShapes(Of):
    other: Float[tq.ArrayValue, "*t"]

    def materialize(self) -> Array:
        return self.v


class OpenShape(Of):
    other: tq.ArrayValue

    def materialize(self) -> Array:
        return self.v


class InFront(tq.ImplicitArray, materialization="allow"):
    v: Float[tq.ArrayValue, "*s n"]

    def materialize(self) -> Array:
        return self.v


class Repeated(tq.ImplicitArray, materialization="allow"):
    v: Float[tq.ArrayValue, "#*s"]
    w: Float[tq.ArrayValue, "#*s"]

    def materialize(self) -> Array:
        return self.v + self.w


V = numbers(rng(5), 3, 2)
ROWS = numbers(rng(6), 3, 2)

NOT_ALIKE: dict[str, tuple[Any, Array]] = {
    "running sums": (RunningSums(V), jnp.stack([V[0], V[0] + V[1], V[0] + V[1] + V[2]])),
    "flipped": (Flipped(V), jnp.stack([V[2], V[1], V[0]])),
    "normalized": (Normalized(V), V / V.max()),
    "by place": (Ramp(V), jnp.stack([0 * V[0], V[1], 2 * V[2]])),
    "by rank": (ByRank(V), 2 * V),
    "by size": (BySize(V), 6 * V),
    "beside numbers of its own": (BesideRows(V), V + ROWS),
    "of matrices alone": (OnlyMatrices(V), 3 * V),
    "two shapes": (TwoShapes(V, V), V),
    "an open shape": (OpenShape(V, V), V),
    "axes behind": (InFront(V), V),
    "repeated": (Repeated(V, V[:1]), V + V[:1]),
}


@pytest.mark.parametrize("kind", NOT_ALIKE)
def test_fields_that_share_the_shape_are_not_sliced_for_entries_computed_otherwise(
    kind: str,
) -> None:
    w, whole = NOT_ALIKE[kind]
    f: Any = lambda xs: lax.scan(lambda c, x: (c + jnp.sum(x), jnp.sin(x)), jnp.float32(0), xs)
    assert_same(use(f)(w), f(whole))
    g: Any = lambda x: lax.scan(lambda c, _: (c, x), 0, None, length=3)[1]
    assert_same(tq.materialize(use(g)(w)), g(whole))


def test_a_field_of_another_shape_than_its_annotation_says_is_not_sliced() -> None:
    with tq.checks(False):
        w = Blend(V, V[:1] - 0.1, jnp.float32(0.25))
        f: Any = lambda xs: lax.map(jnp.sin, xs)
        assert_same(use(f)(w), f(blended(w)))


@pytest.mark.parametrize(
    ("fields", "materialize", "reason", "remedy"),
    [
        pytest.param(
            {"v": tq.ArrayValue},
            lambda self: self.v,
            "the annotations of its fields do not tell which of their axes are axes of it",
            "annotate the array fields of Kept with names for their axes, as in "
            '"m n", so that it may have batch axes in front of these; or all with "*s", if each '
            "entry is computed from those at its place in them",
            id="unannotated",
        ),
        pytest.param(
            {"v": Float[tq.ArrayValue, "m n"]},
            lambda self: self.v,
            "its fields have no axes in front of those that their annotations name",
            "take the slices in the loop, as in x[i], with handlers for what takes them",
            id="no batch axes",
        ),
        pytest.param(
            {"v": Float[tq.ArrayValue, "*s"]},
            lambda self: jnp.cumsum(self.v, 0),
            "Kept.materialize is not seen to compute each entry from those at its place in the "
            "fields",
            "take the slices in the loop, as in x[i], with handlers for what takes them",
            id="entries of others",
        ),
        pytest.param(
            {},
            lambda self: jnp.arange(6.0, dtype=jnp.float32).reshape(self.shape),
            "it has no fields, and no one number is seen to fill it in every shape",
            "take the slices in the loop, as in x[i], with handlers for what takes them",
            id="no fields",
        ),
    ],
)
def test_why_an_array_is_not_sliced_is_said_as_it_is(
    fields: dict[str, Any], materialize: Any, reason: str, remedy: str
) -> None:
    body = {"__annotations__": fields, "materialize": materialize, "__module__": __name__}
    cls: Any = types.new_class(
        "Kept", (tq.ImplicitArray,), {"materialization": "error"}, lambda into: into.update(body)
    )
    w = cls(V) if fields else cls(shape=V.shape, dtype=V.dtype)
    with pytest.raises(tq.MaterializationError) as caught:
        use(lambda xs: lax.scan(lambda c, x: (c, x), 0, xs))(w)
    _, told, advice, *_ = str(caught.value).splitlines()
    assert told == f"  - slices of its fields do not make slices of it: {reason}"
    assert advice == (
        'Kept is defined with materialization="error", since its dense form loses meaning: '
        f"{remedy}, or call tq.materialize(...) where dense is meant."
    )


@pytest.mark.parametrize(
    ("w", "reason", "remedy"),
    [
        pytest.param(
            RunningSums(V),
            ": RunningSums.materialize is not seen to compute each entry from those at its place "
            "in the fields",
            "give its fields as results of the loop, and make the array of their stacks",
            id="entries of others",
        ),
        pytest.param(
            blend(3, 2),
            "",
            "give its fields as results of the loop, and make the array of their stacks",
            id="a number beside",
        ),
        pytest.param(
            OpenShape(V, V),
            ": the annotations of its fields do not tell which of their axes are axes of it",
            "annotate the array fields of OpenShape with names for their axes, as in "
            '"m n", so that it may have batch axes in front of these; or all with "*s", if each '
            "entry is computed from those at its place in them",
            id="unannotated",
        ),
    ],
)
def test_why_results_are_not_stacked_is_said_as_it_is(w: Any, reason: str, remedy: str) -> None:
    f: Any = lambda x: lax.scan(lambda c, _: (c, x), 0, None, length=3)
    with tq.materialization("error"), pytest.raises(tq.MaterializationError) as caught:
        use(f)(w)
    _, told, advice, *_ = str(caught.value).splitlines()
    assert told == f"  - stacks of its fields do not make a stack of it{reason}"
    assert advice.startswith(f'This is inside materialization("error"): {remedy}, or let it pass')


# --- while, fori, map, associative_scan ----------------------------------------------------------

LOOPS: dict[str, Any] = {
    "fori with a constant": lambda x, w: lax.fori_loop(0, 3, lambda _, c: step(c, w), x),
    "fori with a carry": lambda x, w: lax.fori_loop(0, 3, lambda _, c: c * jnp.float32(2), w),
    "fori whose carry becomes dense": lambda x, w: lax.fori_loop(0, 3, lambda _, c: jnp.sin(c), w),
    "map over dense": lambda x, w: lax.map(lambda row: row @ w, x),
    "map over rows of an implicit one": lambda x, w: lax.map(lambda row: x @ w + jnp.sum(row), w),
    "map in batches": lambda x, w: lax.map(lambda row: row * 2, w, batch_size=2),
    "associative scan": lambda x, w: lax.associative_scan(jnp.add, w),
    "switch in a loop": lambda x, w: lax.fori_loop(
        0, 3, lambda i, c: lax.switch(i % 2, [lambda c: step(c, w), lambda c: -c], c), x
    ),
}


@grid(LOOPS, MOST)
def test_a_loop_gives_what_it_gives_for_dense_arrays(name: str, way: str) -> None:
    assert_agrees(LOOPS[name], X, low_rank(), way=way)


WHILES: dict[str, Any] = {
    "constant": lambda x, w: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, step(s[1], w)), (0, x)
    ),
    "carry": lambda x, w: lax.while_loop(
        lambda s: jnp.sum(jnp.abs(x @ s)) < 50.0, lambda s: s * jnp.float32(2), w
    ),
    "carry of another static type": lambda x, w: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, -s[1]), (0, w)
    ),
    "condition on a constant": lambda x, w: lax.while_loop(
        lambda s: s[0] + jnp.sum(x @ w) < 5.0, lambda s: (s[0] + 1, s[1] * 2), (0.0, w)
    ),
    "carry of two types in turn": lambda x, w: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[2], s[1]), (0, w, dense_like(w))
    ),
}


def dense_like(w: Any) -> Any:
    return jnp.ones(w.shape, w.dtype)


@grid(WHILES, ["eager", "jvp"])
def test_a_while_loop_gives_what_it_gives_for_dense_arrays(name: str, way: str) -> None:
    assert_agrees(WHILES[name], X, low_rank(), way=way)


def test_a_while_loop_stays_one_and_its_carry_implicit() -> None:
    f = WHILES["carry"]
    with tq.materialization("error"):
        assert primitives(f, X, low_rank())["while"] == 1
        assert isinstance(use(f)(X, low_rank()), LowRank)


def test_bounds_of_a_loop_may_be_implicit_or_told_at_run_time() -> None:
    class Count(tq.ImplicitArray, materialization="allow"):
        n: tq.ArrayValue

        def materialize(self) -> Array:
            return self.n

    f = use(lambda w, n: lax.fori_loop(0, n, lambda _, c: c * jnp.float32(2), w))
    for bound in (jnp.int32(3), Count(jnp.int32(3))):
        got = f(low_rank(), bound)
        assert isinstance(got, LowRank)
        assert_same(dense(got), dense(low_rank()) * 8)


def test_an_implicit_predicate_of_a_loop_becomes_a_number() -> None:
    class Flag(tq.ImplicitArray, materialization="allow"):
        p: tq.ArrayValue

        def materialize(self) -> Array:
            return self.p

    def count(go_on: Any) -> Any:
        return lax.while_loop(lambda s: s[1], lambda s: (s[0] + 1, s[0] < 3), (0, go_on))[0]

    flag = Flag(jnp.bool_(True))
    assert_same(use(count)(flag), count(jnp.bool_(True)))


def test_only_the_field_that_changes_type_becomes_dense() -> None:
    def f(w: Any, x: Any) -> Any:
        return lax.fori_loop(0, 2, lambda i, w: lax.cond(i > 0, jnp.negative, jnp.negative, w), w)

    nested = Scaled(low_rank(), jnp.float32(2))
    got = use(f)(nested, X)
    assert isinstance(got, Scaled)
    assert not tq.is_implicit(got.x)
    assert_same(dense(got), f(dense(nested), X))


def test_a_field_that_may_not_be_dense_makes_the_whole_dense() -> None:
    class Strict(tq.ImplicitArray, materialization="allow"):
        inner: Float[LowRank, "m n"]

        def materialize(self) -> Float[Array, "m n"]:
            return self.inner.materialize()

    def negate(w: Strict, /) -> Strict:
        return Strict(LowRank(w.inner.a, w.inner.b, -w.inner.scale))

    table = tq.HandlerTable("strict", HANDLERS, ops.neg.to(negate))
    got = use(lambda w: lax.fori_loop(0, 2, lambda _, w: -w, w), table)(Strict(low_rank()))
    assert isinstance(got, jax.Array)
    assert_same(got, dense(low_rank()))


def test_turned_and_shared_kinds_pass_through_loops() -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        return lax.scan(lambda s, _: (jnp.tanh(s + jnp.sum(a) * b), c), b, None, length=2)

    args = Turned(numbers(rng(1), 2, 3)), Plain(jnp.ones(3)), Const(jnp.float32(2), shape=(2,))
    assert_agrees(f, *args)
    assert_agrees(f, Zeros(shape=(3,), dtype=jnp.float32), *args[1:])


# --- drafts --------------------------------------------------------------------------------------


def put(c: Any, i: Any) -> Any:
    """`c` with a one in place `i`; no handler can do that to an implicit array."""
    return lax.dynamic_update_slice(c, jnp.ones((1,)), (i,))


def put_or_not(c: Any, i: Any) -> Any:
    return lax.cond(i > 1, lambda: put(c, i), lambda: c)


ZEROS = Zeros(shape=(3,), dtype=jnp.float32)
DRAFTED: dict[str, Any] = {
    "scan": lambda z: lax.scan(lambda c, i: (put(c, i), None), z, jnp.arange(3))[0],
    "fori": lambda z: lax.fori_loop(0, jnp.int32(2), lambda i, c: put(c, i), z),
    "nested": lambda z: lax.scan(
        lambda c, _: (lax.fori_loop(0, 2, lambda i, d: put(d, i), c), None), z, None, length=2
    )[0],
    "jit": lambda z: lax.fori_loop(0, 2, lambda i, c: jax.jit(put)(c, i), z),
    "jit around": lambda z: jax.jit(lambda z: lax.fori_loop(0, 2, lambda i, c: put(c, i), z))(z),
    "cond": lambda z: lax.fori_loop(0, 2, lambda i, c: put_or_not(c, i), z),
    "one after the other": lambda z: lax.scan(
        lambda c, i: ((c[1], put(c[1], i)), None), (z, z), jnp.arange(3)
    )[0],
    "constant": lambda z: lax.fori_loop(0, 2, lambda i, c: put(z, i) + c, jnp.ones(3)),
}


@pytest.mark.parametrize("name", DRAFTED)
def test_what_is_refused_of_a_loop_is_what_it_makes_dense_in_the_end(name: str) -> None:
    f = DRAFTED[name]
    run = use(f)
    told = {line.primitive for line in tq.explain(run)(ZEROS).materialized}
    assert told == ({"dynamic_update_slice"} if name == "constant" else {"while", "scan"} & told)
    with tq.materialization("error", allow=told):
        assert_same(dense(run(ZEROS)), f(jnp.zeros(3)))
    for one in told:
        with (
            tq.materialization("error", allow=told - {one}),
            pytest.raises(tq.MaterializationError, match=rf"for {one}\("),
        ):
            run(ZEROS)
