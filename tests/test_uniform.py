"""Arrays of one number stay implicit where their entries are moved, cut, repeated or joined."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax
from jax.sharding import AxisType, PartitionSpec

import typedqax as tq
from tests.agreement import assert_same, use
from tests.implicit_kinds import Counting, Zeros
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks

I = jnp.int32(1)  # noqa: E741  # an index

IN_ANOTHER_SHAPE: dict[str, Any] = {
    "reshaped": lambda v: v.reshape(-1),
    "transposed": lambda v: v.T,
    "cut": lambda v: v[1:, ::2],
    "one row": lambda v: v[0],
    "one row, told at run time": lambda v: v[I],
    "a block, told at run time": lambda v: lax.dynamic_slice(v, (I, I), (1, 2)),
    "rows by number": lambda v: v[jnp.array([1, 0, 1])],
    "none": lambda v: v[:0],
    "new axes": lambda v: v[None, :, None],
    "without an axis": lambda v: jnp.squeeze(v[:1], 0),
    "repeated": lambda v: jnp.broadcast_to(v, (5, *v.shape)),
    "tiled": lambda v: jnp.tile(v, (2, 1)),
    "split": lambda v: jnp.split(v, 2, axis=1),
    "unstacked": lambda v: jnp.unstack(v),
    "turned around": lambda v: v[::-1],
    "rolled": lambda v: jnp.roll(v, 1, axis=1),
    "joined": lambda v: jnp.concatenate([v, v[:1]]),
    "stacked": lambda v: jnp.stack([v, v], 2),
    "mapped": lambda v: jax.vmap(lambda row: row[::-1])(v),
    "scanned": lambda v: lax.scan(lambda c, row: (c, row[:2]), 0, v)[1],
}
ZEROS = Zeros(shape=(2, 4), dtype=jnp.float32)


def classes_in(tree: Any) -> set[type]:
    return {type(leaf) for leaf in jax.tree.leaves(tree, is_leaf=tq.is_implicit)}


@pytest.mark.parametrize("name", IN_ANOTHER_SHAPE)
def test_an_array_of_one_number_is_one_in_another_shape(name: str) -> None:
    f = IN_ANOTHER_SHAPE[name]
    with tq.materialization("error", tq.ImplicitArray):
        got = use(f, None)(ZEROS)
    assert classes_in(got) == {Zeros}
    assert_same(tq.materialize(got), f(jnp.zeros((2, 4))))


@pytest.mark.parametrize("name", IN_ANOTHER_SHAPE)
def test_an_array_of_many_numbers_is_not(name: str) -> None:
    f = IN_ANOTHER_SHAPE[name]
    numbers = 0.1 * jnp.arange(8.0).reshape(2, 4) / 3
    got = use(f, None)(Counting(shape=(2, 4), dtype=jnp.float32))
    assert not classes_in(got) & {Counting}
    assert_same(got, f(numbers))


def ones(self: Any) -> Array:
    return jnp.full(self.shape, 1, self.dtype)


class Even(tq.ImplicitArray, materialization="allow"):
    """Another number in another shape."""

    def materialize(self) -> Array:
        return jnp.full(self.shape, 1 / max(self.size, 1), self.dtype)


class Named(tq.ImplicitArray, materialization="allow"):
    """Auxiliary data may speak of axes."""

    names: tuple[str, ...] = tq.aux_field(default=("row", "column"))
    materialize = ones


class Checked(tq.ImplicitArray, materialization="allow"):
    """What is done at construction may refuse a shape."""

    materialize = ones

    def __post_init__(self) -> None:
        assert self.ndim == 2


class OwnInit(tq.ImplicitArray, materialization="allow"):
    """As above."""

    materialize = ones

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(shape=(rows, columns), dtype=jnp.float32)


class Matrices(tq.ImplicitArray, materialization="allow"):
    """There are matrices alone."""

    def materialize(self) -> Array:
        if self.ndim != 2:
            raise ValueError("not a matrix")
        return ones(self)


@pytest.mark.parametrize("name", ["one row", "new axes", "stacked", "reshaped", "scanned"])
@pytest.mark.parametrize(
    "value",
    [
        Named(shape=(2, 4), dtype=jnp.float32),
        Checked(shape=(2, 4), dtype=jnp.float32),
        OwnInit(2, 4),
        Matrices(shape=(2, 4), dtype=jnp.float32),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_shape_that_a_class_may_not_have_is_not_given_to_it(name: str, value: Any) -> None:
    f = IN_ANOTHER_SHAPE[name]
    got = use(f, None)(value)
    if name != "scanned":  # slices are what vmap outside takes of any pytree, whatever it holds
        assert not classes_in(got) & {type(value)}
    assert_same(tq.materialize(got), f(jnp.ones((2, 4))))


@pytest.mark.parametrize(
    ("name", "stays"), [("reshaped", True), ("transposed", True), ("one row", False)]
)
def test_a_number_that_depends_on_the_shape_is_compared(name: str, stays: bool) -> None:
    f = IN_ANOTHER_SHAPE[name]
    got = use(f, None)(Even(shape=(2, 4), dtype=jnp.float32))
    assert (type(got) is Even) == stays
    assert_same(tq.materialize(got), f(jnp.full((2, 4), 0.125)))


class Nearly(tq.ImplicitArray, materialization="allow"):
    """Another number in another shape, the next ones that float32 has."""

    def materialize(self) -> Array:
        return jnp.full(self.shape, 0.0012345678 + 1e-9 * self.ndim, self.dtype)


class Power(tq.ImplicitArray, materialization="allow"):
    """Another number in another shape, by a param alone."""

    def materialize(self) -> Array:
        return jnp.full(self.shape, lax.integer_pow(jnp.asarray(2, self.dtype), self.ndim))


NUMBERS = [jnp.float32(number) for number in (1, 3, 5, 7, 9)]


class Kept(tq.ImplicitArray, materialization="allow"):
    """Another number in another shape, an array that was made before."""

    def materialize(self) -> Array:
        return jnp.full(self.shape, NUMBERS[self.ndim])


class Swapped(tq.ImplicitArray, materialization="allow"):
    """Another number in another shape, by the order of operands."""

    def materialize(self) -> Array:
        three, two = jnp.sqrt(jnp.asarray(9, self.dtype)), jnp.sqrt(jnp.asarray(4, self.dtype))
        return jnp.full(self.shape, three - two if self.ndim == 2 else two - three)


@pytest.mark.parametrize("name", ["one row", "new axes", "reshaped", "stacked"])
@pytest.mark.parametrize("cls", [Nearly, Power, Kept, Swapped])
def test_numbers_that_hardly_differ_are_told_apart(cls: Any, name: str) -> None:
    f = IN_ANOTHER_SHAPE[name]
    value = cls(shape=(2, 4), dtype=jnp.float32)
    got, want = tq.materialize(use(f, None)(value)), f(value.materialize())
    assert (got == want).all()


def test_one_of_a_shape_that_a_class_can_have_is_of_that_class() -> None:
    with tq.materialization("error", Matrices):
        got = use(lambda v: v.T, None)(Matrices(shape=(2, 4), dtype=jnp.float32))
    assert (type(got), got.shape) == (Matrices, (4, 2))


def test_what_is_filled_in_is_another_number() -> None:
    f: Any = lambda v: (jnp.take(v, jnp.array([0, 7]), axis=0), jnp.pad(v, 1, constant_values=2))
    got = use(f, None)(ZEROS)
    assert not classes_in(got) & {Zeros}
    assert_same(got, f(jnp.zeros((2, 4))))


class Nothing(tq.ImplicitArray, materialization="allow"):
    """Zeros that mean something else."""

    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


@pytest.mark.parametrize(
    "other",
    [
        jnp.ones((2, 4)),
        Matrices(shape=(2, 4), dtype=jnp.float32),
        Nothing(shape=(2, 4), dtype=jnp.float32),
    ],
    ids=lambda other: type(other).__name__,
)
def test_what_is_joined_with_another_array_is_dense(other: Any) -> None:
    got = use(lambda v, w: jnp.concatenate([v, w]), None)(ZEROS, other)
    assert not tq.is_implicit(got)
    assert_same(got, jnp.concatenate([jnp.zeros((2, 4)), tq.materialize(other)]))


class Parity(tq.ImplicitArray, materialization="allow"):
    """Another number for an odd count of rows."""

    def materialize(self) -> Array:
        return jnp.full(self.shape, self.shape[0] % 2, self.dtype)


@pytest.mark.parametrize(("rows", "stays"), [((2, 4), True), ((1, 2), False)], ids=str)
def test_what_is_joined_has_to_be_filled_with_one_number(rows: Any, stays: bool) -> None:
    values = [Parity(shape=(count, 4), dtype=jnp.float32) for count in rows]
    f: Any = lambda *each: jnp.concatenate(each)
    got = use(f, None)(*values)
    assert (type(got) is Parity) == stays
    assert_same(tq.materialize(got), f(*[value.materialize() for value in values]))


def test_where_the_result_is_to_be_sharded_it_is_the_dense_array() -> None:
    f: Any = lambda v: lax.broadcast_in_dim(v, (4, 2, 4), (1, 2), out_sharding=PartitionSpec("x"))
    with jax.set_mesh(jax.make_mesh((2,), ("x",), axis_types=(AxisType.Explicit,))):
        got, want = use(f, None)(ZEROS), f(jnp.zeros((2, 4)))
    assert not tq.is_implicit(got)
    assert got.sharding == want.sharding


def test_a_handler_of_the_class_goes_first() -> None:
    def turned(z: Zeros, /, *, permutation: Any) -> Array:
        return jnp.full(z.shape[::-1], 5, z.dtype)

    got = use(lambda z: z.T, tq.HandlerTable("turned", ops.transpose.to(turned)))(ZEROS)
    assert_same(got, jnp.full((4, 2), 5.0))


def test_derivatives_pass_through_an_array_in_another_shape() -> None:
    def f(z: Any, x: Any) -> Any:
        return jnp.sum(jnp.sin(x * z.T[:, :1] + x))

    x = jnp.arange(4.0)[:, None]
    got = jax.grad(lambda z, x: use(f)(z, x), argnums=(0, 1), allow_int=True)(ZEROS, x)
    assert type(got[0]) is Zeros
    assert_same(got[1], jnp.cos(x))
