"""Shape and dtype: given, by default, computed, or derived from `materialize` - in that order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jaxtyping import Float, PRNGKeyArray, UInt8

import typedqax as tq
from tests.implicit_world import (
    CASES,
    LoraMatrix,
    Plain,
    Rows,
    Scaled,
    Zeros,
    close,
    numbers,
    transformed,
)
from typedqax._aval import aval_of, batch_shape, batched_fields, derive, describe
from typedqax._fields import field_layouts
from typedqax._signature import Dense, Operand

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


class Bare(tq.ImplicitArray, materialization="allow"):
    """Knows its shape and dtype only when they are given."""

    def materialize(self) -> Array:
        return jnp.zeros(self.shape, self.dtype)


class ByDefault(Bare):
    default_shape = (2, 3)
    default_dtype = jnp.bfloat16


class Computed(Bare):
    default_dtype = jnp.int8
    rows: int = tq.aux_field(default=4)

    def compute_shape(self) -> tuple[int, ...]:
        return (self.rows, 2)

    def compute_dtype(self) -> Any:
        return jnp.float16


# --- which way ------------------------------------------------------------------------------------


@cases
def test_shape_and_dtype_are_those_of_the_represented_array(case: Any) -> None:
    value, dense = case.both()
    assert value.shape == dense.shape
    assert value.dtype == dense.dtype
    assert value.ndim == dense.ndim
    assert value.size == dense.size
    assert value.aval.shape == dense.shape
    assert value.nbytes == dense.nbytes
    assert value.itemsize == dense.dtype.itemsize


def test_a_given_shape_and_dtype_hold() -> None:
    value = Bare(shape=(5, 6), dtype=jnp.int16)
    assert (value.shape, value.dtype) == ((5, 6), np.dtype("int16"))


@pytest.mark.parametrize("shape", [[2, 3], (np.int64(2), 3), np.array([2, 3])], ids=str)
def test_a_given_shape_becomes_a_tuple_of_ints(shape: Any) -> None:
    value = Bare(shape=shape, dtype=jnp.float32)
    assert value.shape == (2, 3)
    assert all(type(size) is int for size in value.shape)


@pytest.mark.parametrize("dtype", ["float32", np.float32, jnp.float32, np.dtype("float32"), float])
def test_a_given_dtype_is_any_that_jax_takes(dtype: Any) -> None:
    value = Bare(shape=(), dtype=dtype)
    assert value.dtype == np.dtype("float32")


def test_a_given_shape_must_be_a_shape() -> None:
    with pytest.raises(TypeError, match=r"^Bare\(shape=\('a',\)\)"):
        Bare(shape=("a",), dtype=jnp.float32)  # type: ignore[arg-type]  # that is the mistake


def test_a_given_shape_of_one_number_is_told_to_be_a_tuple() -> None:
    said = r"^Bare\(shape=3\): a shape is a tuple of sizes, here shape=\(3,\)$"
    with pytest.raises(TypeError, match=said):
        Bare(shape=3, dtype=jnp.float32)  # type: ignore[arg-type]  # that is the mistake


def test_a_given_dtype_must_be_a_dtype() -> None:
    with pytest.raises(TypeError, match=r"^Bare\(dtype='nonsense'\)"):
        Bare(shape=(), dtype="nonsense")


def test_class_defaults_stand_in_for_what_is_not_given() -> None:
    assert ByDefault().shape == (2, 3)
    assert ByDefault().dtype == jnp.bfloat16
    assert ByDefault(shape=(4,)).shape == (4,)
    assert ByDefault(dtype=jnp.int8).dtype == jnp.int8


def test_class_defaults_come_before_what_is_computed() -> None:
    assert (Computed().shape, Computed().dtype) == ((4, 2), jnp.int8)


def test_compute_methods_tell_before_materialize_is_asked() -> None:
    class Never(tq.ImplicitArray):
        x: tq.ArrayValue

        def compute_shape(self) -> tuple[int, ...]:
            return (*self.x.shape, 2)

        def compute_dtype(self) -> Any:
            return jnp.float16

        def materialize(self) -> Array:
            raise AssertionError("materialize is not needed")

    value = Never(jnp.ones(3))
    assert (value.shape, value.dtype) == ((3, 2), jnp.float16)


def test_one_compute_method_leaves_the_other_to_materialize() -> None:
    class Half(tq.ImplicitArray):
        x: tq.ArrayValue

        def compute_dtype(self) -> Any:
            return self.x.dtype

        def materialize(self) -> Array:
            return jnp.stack([self.x, self.x])

    assert Half(jnp.ones(3)).shape == (2, 3)


def test_materialize_may_use_what_compute_gives() -> None:
    class Uses(tq.ImplicitArray):
        x: tq.ArrayValue

        def compute_shape(self) -> tuple[int, ...]:
            return (2, *self.x.shape)

        def materialize(self) -> Array:
            return jnp.broadcast_to(self.x, self.shape)

    value = Uses(jnp.ones(3))
    assert (value.shape, value.dtype) == ((2, 3), jnp.float32)


def test_materialize_without_leaves_may_use_the_dtype_that_compute_gives() -> None:
    class Halves(tq.ImplicitArray):
        def compute_dtype(self) -> Any:
            return jnp.bfloat16

        def materialize(self) -> Array:
            return jnp.full(self.shape, 0.5, self.dtype)

    halves = Halves(shape=(2,))
    assert halves.dtype == jnp.bfloat16
    assert halves.materialize().dtype == jnp.bfloat16


def test_nothing_is_derived_on_construction() -> None:
    class Lazy(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            raise AssertionError("nobody asked")

    Lazy(jnp.ones(3))


def test_materialize_is_evaluated_abstractly_and_once_per_type() -> None:
    asked = []

    class Counted(tq.ImplicitArray, materialization="error"):
        x: Float[tq.ArrayValue, "n"]

        def materialize(self) -> Array:
            asked.append(type(self.x))
            return self.x * 2.0

    for _ in range(3):
        assert Counted(jnp.ones(3)).shape == (3,)
    assert len(asked) == 1
    assert all(issubclass(cls, jax.core.Tracer) for cls in asked)
    assert Counted(jnp.ones(4)).shape == (4,)
    assert len(asked) == 2


def test_deriving_is_not_reported_as_materialization() -> None:
    value = CASES["lora"].both()[0]
    with tq.materialization("error"):
        assert value.shape == (3, 4)


def test_auxiliary_data_takes_part_in_the_derivation() -> None:
    row = jnp.ones(4)
    assert Rows(row, count=2).shape == (2, 4)
    assert Rows(row, count=5).shape == (5, 4)


def test_shape_follows_a_field_that_is_replaced() -> None:
    value = Plain(jnp.ones(3))
    before = value.shape
    value.inside = jnp.ones((4, 5), jnp.int32)
    assert (before, value.shape) == ((3,), (4, 5))
    assert value.dtype == jnp.int32


def test_shape_and_dtype_of_python_numbers_in_fields_are_jax_s() -> None:
    value = Plain(1.5)  # type: ignore[arg-type]  # a number stands for itself
    assert (value.shape, value.dtype) == ((), jnp.float32)


def test_under_x64_dtypes_are_wide() -> None:
    with jax.enable_x64(True):
        assert Bare(shape=(), dtype=float).dtype == np.float64
        assert Plain(np.ones(3)).dtype == np.float64  # type: ignore[arg-type]  # numpy


def test_keys_are_arrays_of_an_extended_dtype() -> None:
    class Keys(tq.ImplicitArray):
        key: PRNGKeyArray

        def materialize(self) -> Array:
            return jax.random.split(self.key, 3)

    value = Keys(jax.random.key(0))
    assert value.shape == (3,)
    assert jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    assert repr(value) == "Keys key<fry>[3](key=key<fry>[])"


def test_implicit_arrays_are_never_weakly_typed() -> None:
    value = Plain(jnp.asarray(1.0))
    assert jnp.asarray(1.0).weak_type
    assert not value.aval.weak_type
    dense = tq.materialize(Plain(jnp.asarray(2.0)))
    assert not dense.weak_type


# --- when nothing tells ---------------------------------------------------------------------------


def test_without_any_way_the_error_lists_the_ways() -> None:
    class Nothing(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            return jnp.full(self.shape, self.x)

    value = Nothing(jnp.ones(()))
    with pytest.raises(tq.UninitializedAval) as caught:
        _ = value.shape
    text = str(caught.value)
    assert text.startswith(
        "the shape and dtype of Nothing are not known: none were given, and its "
    )
    for way in ("shape=..., dtype=...", "super().__init__", "default_shape", "compute_shape()"):
        assert way in text


def test_the_error_shows_why_materialize_does_not_tell() -> None:
    class Broken(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            raise KeyError("missing")

    with pytest.raises(tq.UninitializedAval, match="KeyError: 'missing'") as caught:
        _ = Broken(jnp.ones(2)).dtype
    assert isinstance(caught.value.__cause__, KeyError)


def test_fields_that_do_not_fit_together_are_shown_where_materialize_raises() -> None:
    class Packed(tq.ImplicitArray):
        halves: UInt8[tq.ArrayValue, "m half"]
        scale: Float[tq.ArrayValue, "1 n"]

        def materialize(self) -> Array:
            both = jnp.concatenate([self.halves & 15, self.halves >> 4], 1)
            return both.astype(jnp.float32) * self.scale

    with pytest.raises(tq.UninitializedAval) as caught:
        _ = Packed(jnp.ones((4, 3), jnp.uint8), jnp.ones((1, 3))).shape
    text = str(caught.value)
    assert "its materialize() raises TypeError: mul got incompatible shapes" in text
    assert (
        "evaluated abstractly for halves=u8[4,3], scale=f32[1,3]. Mend materialize(), or " in text
    )


def test_a_compute_shape_that_raises_is_named() -> None:
    class Sized(Bare):
        def compute_shape(self) -> tuple[int, ...]:
            raise LookupError("no size")

    with pytest.raises(
        tq.UninitializedAval, match=r"compute_shape\(\) raises LookupError: no size"
    ):
        Sized(dtype=jnp.float32)


def test_the_error_is_an_attribute_error_so_that_hasattr_works() -> None:
    with pytest.raises(AttributeError):
        _ = Bare(shape=(1,)).dtype


def test_a_leafless_array_without_a_shape_is_refused_when_made() -> None:
    with pytest.raises(tq.UninitializedAval, match="of Bare are not known"):
        Bare()


def test_a_tree_of_axes_has_no_shape_and_says_so() -> None:
    axes = LoraMatrix(0, None, 0)  # type: ignore[arg-type]  # a tree of axes
    with pytest.raises(
        tq.ShapeError, match=r"LoraMatrix\.a holds None, not an array.*tree of axes"
    ):
        _ = axes.shape


@pytest.mark.parametrize(
    ("given", "shown", "advice"),
    [
        pytest.param(
            None,
            "None",
            "It has to return the dense array that it stands for: a `return` is missing.",
            id="nothing",
        ),
        pytest.param(
            [jnp.ones(2)],
            "a list of 1",
            "It has to return one array, the dense one that it stands for.",
            id="a list",
        ),
        pytest.param(
            3.0, "3.0", "It has to return one array, the dense one that it stands for.", id="number"
        ),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda cls: cls(jnp.ones(2)).shape, id="shape"),
        pytest.param(lambda cls: tq.materialize(cls(jnp.ones(2))), id="materialize"),
        pytest.param(
            lambda cls: tq.materialize(cls(jnp.ones(2), shape=(2,), dtype=jnp.float32)),
            id="shape and dtype given",
        ),
        pytest.param(lambda cls: transformed(jnp.tanh)(cls(jnp.ones(2))), id="transform"),
    ],
)
def test_materialize_that_gives_no_array_is_named_with_its_place(
    use: Callable[[Any], Any], given: Any, shown: str, advice: str
) -> None:
    class Wrong(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Any:
            return given

    line = Wrong.materialize.__code__.co_firstlineno
    with pytest.raises(tq.ContractError) as caught:
        use(Wrong)
    assert str(caught.value) == (
        f"Wrong.materialize ({__file__}:{line}) gave {shown}; an array is due.\n  {advice}"
    )


# --- batch axes -----------------------------------------------------------------------------------


def test_axes_in_front_of_those_annotated_are_batch_axes() -> None:
    value = LoraMatrix(numbers(0, 5, 3, 4), numbers(1, 5, 3, 2), numbers(2, 5, 4, 2), 0.5)
    assert batch_shape(value) == (5,)
    assert derive(value).shape == (3, 4)
    assert value.shape == (5, 3, 4)
    assert value.ndim == 3
    expected = value.w + 0.5 * jnp.einsum("kmr,knr->kmn", value.a, value.b)
    np.testing.assert_allclose(tq.materialize(value), expected, 1e-5, 1e-5)


def test_fields_without_batch_axes_share_their_array() -> None:
    value = LoraMatrix(numbers(0, 3, 4), numbers(1, 5, 3, 2), numbers(2, 5, 4, 2), 0.5)
    assert value.shape == (5, 3, 4)
    assert batched_fields(value, batch_shape(value)) == {"a", "b"}
    expected = value.w[None] + 0.5 * jnp.einsum("kmr,knr->kmn", value.a, value.b)
    np.testing.assert_allclose(tq.materialize(value), expected, 1e-5, 1e-5)


def test_two_batch_axes_are_fine() -> None:
    value = Rows(numbers(0, 2, 5, 4), count=3)
    assert value.shape == (2, 5, 3, 4)
    np.testing.assert_array_equal(
        tq.materialize(value), np.broadcast_to(np.asarray(value.row)[:, :, None], (2, 5, 3, 4))
    )


def test_different_batch_axes_are_an_error_that_names_both_fields() -> None:
    with pytest.raises(tq.ShapeError) as caught:
        LoraMatrix(numbers(0, 3, 4), numbers(1, 5, 3, 2), numbers(2, 6, 4, 2))
    assert str(caught.value) == (
        "the fields of LoraMatrix have different batch axes: a has (5,) in front of the axes its "
        "annotation names, b has (6,). Each field has the same batch axes, or none."
    )


def test_a_variadic_annotation_adds_no_batch_axes() -> None:
    value = Scaled(numbers(0, 5, 3), numbers(1))
    assert batch_shape(value) == ()
    assert field_layouts(Scaled)["x"].rank is None
    assert field_layouts(Scaled)["factor"].rank == 0


def test_an_annotation_without_a_shape_adds_no_batch_axes() -> None:
    value = Plain(numbers(0, 5, 3))
    assert batch_shape(value) == ()
    assert field_layouts(Plain)["inside"].rank is None


def test_batch_axes_of_a_nested_array_count() -> None:
    inner = Rows(numbers(0, 5, 4), count=3)
    value = LoraMatrix(inner, numbers(1, 5, 3, 2), numbers(2, 4, 2))
    assert value.shape == (5, 3, 4)


class Turned(tq.ImplicitArray, materialization="allow"):
    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x.T


class Counting(tq.ImplicitArray, materialization="allow"):
    def materialize(self) -> Array:
        return jnp.arange(float(self.size), dtype=jnp.float32).reshape(self.shape)


@pytest.mark.parametrize(
    "w",
    [
        pytest.param(Turned(jnp.arange(8.0).reshape(2, 2, 2)), id="a transposed leaf"),
        pytest.param(Counting(shape=(2, 2, 2), dtype=jnp.float32), id="no leaves"),
        pytest.param(Zeros(shape=(2, 2, 2), dtype=jnp.float32), id="zeros"),
    ],
)
def test_a_nested_array_is_sliced_as_a_whole_where_its_leaves_do_not_make_its_slices(
    w: Any,
) -> None:
    a, b = numbers(1, 2, 2, 1), numbers(2, 2, 2, 1)
    lora = LoraMatrix(w, a, b)
    assert lora.shape == (2, 2, 2)
    want = np.asarray(w.materialize()) + np.einsum("kmr,knr->kmn", a, b)
    close(tq.materialize(lora), jnp.asarray(want))


def test_a_missing_event_axis_is_an_error_that_names_the_field() -> None:
    value = jax.tree.map(lambda leaf: leaf[0], CASES["lora"].both()[0])
    uses: list[Callable[[], Any]] = [
        lambda: value.shape,
        lambda: value.dtype,
        lambda: value + 1.0,
    ]
    for use in uses:
        with pytest.raises(
            tq.ShapeError, match=r"^LoraMatrix\.w has shape \(4,\), which is 1 axis,"
        ):
            use()


def test_batch_axes_appear_and_go_with_those_of_the_leaves() -> None:
    value = CASES["lora"].both()[0]
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), value)
    assert stacked.shape == (2, 3, 4)
    assert jax.tree.map(lambda leaf: leaf[1], stacked).shape == (3, 4)


def test_a_given_shape_stays_that_of_one_under_vmap_and_scan() -> None:
    seen = []
    value = Rows(numbers(0, 5, 4), count=3, shape=(5, 3, 4))
    assert value.shape == (5, 3, 4)
    jax.vmap(lambda v: seen.append(v.shape))(value)

    def step(carry: int, v: Any) -> tuple[int, None]:
        seen.append(v.shape)
        return carry, None

    lax.scan(step, 0, value)
    assert seen == [(3, 4)] * len(seen)


def test_a_leafless_shape_is_that_of_its_leaf() -> None:
    value = Zeros(shape=(5, 3), dtype=jnp.float32)
    assert jax.tree.map(lambda leaf: leaf[0], value).shape == (3,)
    assert jax.eval_shape(lambda v: v, value).shape == (5, 3)


# --- what is dispatched on ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16, jnp.float8_e4m3fn])
@pytest.mark.parametrize("to", [jnp.float32, jnp.bfloat16])
def test_a_cast_of_all_leaves_casts_an_array_without_leaves(dtype: Any, to: Any) -> None:
    params = {"w": jnp.ones((2, 3), dtype), "bias": Bare(shape=(3,), dtype=dtype)}
    cast = jax.tree.map(lambda leaf: leaf.astype(to), params)
    assert cast["bias"].dtype == cast["w"].dtype == to
    assert dataclasses.replace(cast["bias"]).dtype == to
    assert tq.materialize(cast["bias"]).dtype == to
    back = jax.tree.map(lambda leaf: leaf.astype(dtype), cast)
    assert back["bias"].dtype == dtype
    assert jax.tree.structure(back) == jax.tree.structure(params)


def test_integers_without_leaves_stay_integers_where_floats_are_cast() -> None:
    whole = Bare(shape=(3,), dtype=jnp.int32)
    assert jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), whole).dtype == jnp.int32


def test_a_dtype_that_is_given_later_is_that_of_the_leaf_too() -> None:
    bare = Bare(shape=(3,), dtype=jnp.float32)
    bare.dtype = jnp.float16
    assert bare.dtype == jnp.float16
    assert [leaf.dtype for leaf in jax.tree.leaves(bare)] == [jnp.float16]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(np.ones((2, 3), np.int8), Operand(Dense, "int8", (2, 3)), id="numpy"),
        pytest.param(1.0, Operand(Dense, "float32", ()), id="python number"),
        pytest.param(np.float16(1), Operand(Dense, "float16", ()), id="numpy scalar"),
        pytest.param(
            jax.ShapeDtypeStruct((4,), jnp.bfloat16), Operand(Dense, "bfloat16", (4,)), id="struct"
        ),
    ],
)
def test_dense_values_are_described_by_their_dtype_and_shape(value: Any, expected: Operand) -> None:
    assert describe(value) == expected


def test_implicit_values_are_described_by_their_class_too() -> None:
    assert describe(CASES["lora"].both()[0]) == Operand(LoraMatrix, "float32", (3, 4))
    assert str(describe(CASES["lora"].both()[0])) == "LoraMatrix f32[3,4]"


def test_keys_are_described_by_their_implementation() -> None:
    assert describe(jax.random.key(0)) == Operand(Dense, "key<fry>", ())


@cases
def test_the_aval_is_that_of_the_dense_array(case: Any) -> None:
    value, dense = case.both()
    aval = aval_of(value)
    assert (aval.shape, aval.dtype, aval.weak_type) == (dense.shape, dense.dtype, False)


def test_symbolic_sizes_are_shapes() -> None:
    from jax import export

    (n,) = export.symbolic_shape("n")
    f = jax.jit(transformed(lambda w: w.sum()))
    exported = export.export(f)(
        LoraMatrix(
            jax.ShapeDtypeStruct((n, 4), jnp.float32),  # type: ignore[arg-type]  # a struct
            jax.ShapeDtypeStruct((n, 2), jnp.float32),  # type: ignore[arg-type]  # a struct
            jax.ShapeDtypeStruct((4, 2), jnp.float32),  # type: ignore[arg-type]  # a struct
        )
    )
    value = LoraMatrix(numbers(0, 3, 4), numbers(1, 3, 2), numbers(2, 4, 2))
    dense = value.w + jnp.einsum("mr,nr->mn", value.a, value.b)
    np.testing.assert_allclose(exported.call(value), dense.sum(), 1e-5)
