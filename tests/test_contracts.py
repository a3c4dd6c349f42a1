"""Contracts: fields, materialize, operands, params and results against their annotations."""

from __future__ import annotations

import contextvars
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float, Int, Int8, Integer, Shaped

import typedqax as tq
from tests.implicit_world import (
    CASES,
    LoraMatrix,
    Plain,
    Scaled,
    close,
    numbers,
    transformed,
)
from typedqax import ops
from typedqax.arrays import Int8Matrix

SAME = numbers(22, 3, 4)


class Box(tq.ImplicitArray, materialization="allow"):
    x: Float[tq.ArrayValue, "*s"]

    def materialize(self) -> Float[Array, "*s"]:
        return self.x


def f32(*shape: int) -> Array:
    return jnp.zeros(shape, jnp.float32)


# --- (a) fields -----------------------------------------------------------------------------------


def test_fields_that_disagree_about_an_axis_say_which_field_bound_it() -> None:
    with pytest.raises(tq.ContractError) as caught:
        LoraMatrix(w=f32(3, 4), a=f32(5, 2), b=f32(4, 2))
    assert str(caught.value) == (
        "LoraMatrix(w=f32[3,4], a=f32[5,2], b=f32[4,2]): axis m is 5 (a, axis 0), but 3 from w, "
        "axis 0.\n"
        '    w: Float[ArrayValue, "m n"]\n'
        '    a: Float[ArrayValue, "m r"]\n'
        '    b: Float[ArrayValue, "n r"]'
    )


def test_a_field_of_another_dtype_is_an_error() -> None:
    with pytest.raises(tq.ContractError, match=r"b\b.*int32.*Float|b\b.*i32"):
        LoraMatrix(f32(3, 4), f32(3, 2), jnp.zeros((4, 2), jnp.int32))


def test_a_field_with_too_few_axes_is_an_error() -> None:
    with pytest.raises(tq.ContractError) as caught:
        LoraMatrix(f32(3, 4), f32(3, 2), f32(4))
    lead = "LoraMatrix(w=f32[3,4], a=f32[3,2], b=f32[4]):"
    assert str(caught.value).startswith(lead)
    assert "rank 1, expected 2" in str(caught.value)


def test_numpy_arrays_tracers_and_structs_are_checked_too() -> None:
    bad = {"w": (3, 4), "a": (5, 2), "b": (4, 2)}
    with pytest.raises(tq.ContractError, match="axis m"):
        LoraMatrix(**{k: np.zeros(s, np.float32) for k, s in bad.items()})  # type: ignore[arg-type]  # numpy's arrays
    with pytest.raises(tq.ContractError, match="axis m"):
        LoraMatrix(**{k: jax.ShapeDtypeStruct(s, jnp.float32) for k, s in bad.items()})  # type: ignore[arg-type]  # structs
    with pytest.raises(tq.ContractError, match="axis m"):
        jax.jit(lambda w, a, b: LoraMatrix(w, a, b).w)(*[f32(*s) for s in bad.values()])


def test_implicit_fields_are_checked_by_the_shape_they_stand_for() -> None:
    LoraMatrix(Box(f32(3, 4)), Box(f32(3, 2)), f32(4, 2))
    with pytest.raises(tq.ContractError, match=r"a=Box f32\[5,2\]"):
        LoraMatrix(f32(3, 4), Box(f32(5, 2)), f32(4, 2))


def test_array_in_a_field_means_dense_or_implicit() -> None:
    class Over(tq.ImplicitArray):
        x: Float[Array, "n"]
        y: Array

        def materialize(self) -> Array:
            return self.x

    arrays: list[Any] = [f32(3), np.zeros(3, np.float32), Box(f32(3))]
    for x in arrays:
        Over(x, Box(f32(2)))
    with pytest.raises(tq.ContractError):
        Over(jnp.zeros(3, jnp.int32), f32(2))


def test_a_field_annotated_with_a_class_takes_that_class() -> None:
    class Holder(tq.ImplicitArray):
        x: Float[Box, "n"]

        def materialize(self) -> Array:
            return self.x

    Holder(Box(f32(3)))
    with pytest.raises(tq.ContractError, match="x"):
        Holder(f32(3))  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(tq.ContractError, match="Plain"):
        Holder(Plain(f32(3)))  # type: ignore[arg-type]  # that is the mistake


def test_batch_axes_are_left_apart() -> None:
    LoraMatrix(f32(7, 3, 4), f32(7, 3, 2), f32(4, 2))
    with pytest.raises(tq.ContractError, match="axis m is 5"):
        LoraMatrix(f32(7, 3, 4), f32(7, 5, 2), f32(4, 2))


def test_unions_and_literal_sizes_in_fields() -> None:
    class Odd(tq.ImplicitArray):
        x: Float[Array, "3 n"] | Int[Array, "n"]
        y: Integer[Array, "n+1"]

        def materialize(self) -> Array:
            return self.x

    Odd(f32(3, 5), jnp.zeros(6, jnp.int8))
    Odd(jnp.zeros(5, jnp.int32), jnp.zeros(6, jnp.int8))
    for x, y in ((f32(2, 5), 6), (f32(3, 5), 5)):
        with pytest.raises(tq.ContractError):
            Odd(x, jnp.zeros(y, jnp.int8))


def test_fields_that_hold_no_arrays_are_not_checked() -> None:
    LoraMatrix(None, 0, "s")  # type: ignore[arg-type]  # a tree of something
    LoraMatrix(f32(3, 4), None, f32(9, 9))  # type: ignore[arg-type]  # a mask of some kind


def test_unflatten_does_not_check() -> None:
    tree = jax.tree.structure(CASES["lora"].both()[0])
    assert jax.tree.unflatten(tree, [f32(1), f32(2, 2), f32(3)]).b.shape == (3,)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(tq.use_implicit_args(lambda w: w.T), id="transform"),
        pytest.param(jax.jit(tq.use_implicit_args(lambda w: w.T)), id="jit"),
        pytest.param(lambda w: w.T, id="operator"),
    ],
)
def test_a_field_that_was_assigned_is_checked_when_the_array_is_used(use: Any) -> None:
    value = LoraMatrix(jnp.ones((3, 4)), jnp.ones((3, 2)), jnp.ones((4, 2)))
    value.a = jnp.ones((3, 5))
    with pytest.raises(tq.ContractError, match=r"axis r is 2 .*but 5 from a, axis 1"):
        use(value)
    value.a, value.b = jnp.ones((3, 5)), jnp.ones((4, 5))
    assert use(value).shape == (4, 3)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda x: x > 0, id="masks"),
        pytest.param(lambda x: np.zeros(x.shape, jax.dtypes.float0), id="tangents of integers"),
        pytest.param(lambda x: x.astype(jnp.int32), id="counts"),
    ],
)
def test_trees_of_other_dtypes_pass_through(change: Any) -> None:
    value = Int8Matrix(jnp.ones((3, 4), jnp.int8), jnp.ones((3, 1)))
    tree = Int8Matrix(None, None)  # type: ignore[arg-type]  # a tree, filled below
    tree.values, tree.scale = change(value.values), value.scale
    same = tq.use_implicit_args(lambda w, tree: tree)(value, tree)
    assert same.values.dtype == tree.values.dtype


def test_an_annotation_that_cannot_be_read_is_a_signature_error_at_first_use() -> None:
    class Bad(tq.ImplicitArray):
        x: Float[Array, "n +"]

        def materialize(self) -> Array:
            return self.x

    with pytest.raises(tq.SignatureError, match=r"Bad\.x.* cannot be an array field"):
        Bad(f32(3))


def test_an_annotation_of_an_unknown_name_says_so() -> None:
    class Unknown(tq.ImplicitArray):
        x: NoSuchName  # type: ignore[name-defined]  # that is the mistake

        def materialize(self) -> Any:
            return self.x

    with pytest.raises(tq.SignatureError, match="'NoSuchName', which does not exist there"):
        Unknown(f32(3))


def test_a_postponed_annotation_of_a_local_class_is_found() -> None:
    class Inner(tq.ImplicitArray):
        y: Float[Array, "n"]

        def materialize(self) -> Array:
            return self.y

    class Outer(tq.ImplicitArray):
        x: Float[Inner, "n"]

        def materialize(self) -> Array:
            return self.x.materialize()

    assert Outer(Inner(f32(3))).shape == (3,)


# --- (a) materialize ------------------------------------------------------------------------------


def test_materialize_is_checked_against_its_annotation() -> None:
    class Forgets(tq.ImplicitArray, materialization="allow"):
        a: Float[Array, "m r"]
        b: Float[Array, "n r"]

        def materialize(self) -> Float[Array, "m n"]:
            return self.b @ self.a.T

    with pytest.raises(tq.ContractError) as caught:
        tq.materialize(Forgets(f32(3, 2), f32(4, 2)))
    text = str(caught.value)
    place = f"{__file__}:{Forgets.materialize.__code__.co_firstlineno}"
    assert text.startswith(
        f"Forgets.materialize ({place}) gave Array f32[4,3], "
        'annotated Float[Array, "m n"], which here is [3,4].'
    )
    assert 'm = 3  from a: Float[Array, "m r"], axis 0 of Array f32[3,2]' in text
    assert 'n = 4  from b: Float[Array, "n r"], axis 0 of Array f32[4,2]' in text


def test_materialize_is_checked_against_the_given_shape_and_dtype() -> None:
    class Lies(tq.ImplicitArray, materialization="allow"):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            return self.x

    for value in (Lies(f32(3), shape=(4,)), Lies(f32(3), dtype=jnp.int8)):
        with pytest.raises(
            tq.ContractError, match=r"^Lies\.materialize \(.*\) gave Array f32\[3\], but this Lies "
        ):
            tq.materialize(value)
        with pytest.raises(
            tq.ContractError, match=r"^Lies\.materialize \(.*\) gave Array f32\[3\], but this Lies "
        ):
            tq.use_implicit_args(jnp.sin)(value)


def test_materialize_may_give_an_implicit_array() -> None:
    class Over(tq.ImplicitArray, materialization="allow"):
        x: Float[Array, "n"]

        def materialize(self) -> Float[Array, "n"]:
            return Box(self.x * 2.0)

    close(tq.materialize(Over(jnp.ones(3))), jnp.full(3, 2.0))
    close(tq.use_implicit_args(jnp.negative)(Over(jnp.ones(3))), jnp.full(3, -2.0))


def test_materialize_with_batch_axes_is_checked_for_one() -> None:
    value = LoraMatrix(f32(7, 3, 4), f32(7, 3, 2), f32(4, 2))
    assert tq.materialize(value).shape == (7, 3, 4)


# --- (b) handlers against their annotations -------------------------------------------------------


def run_negated(handler: Any, value: Any) -> Any:
    table = tq.HandlerTable("t", ops.neg.to(handler))
    return tq.use_implicit_args(jnp.negative, handlers=table)(value)


def test_a_result_of_another_shape_than_annotated_is_an_error() -> None:
    def bad(w: Float[LoraMatrix, "m n"], /, *, permutation: Any) -> Float[LoraMatrix, "n m"]:
        return w

    table = tq.HandlerTable("t", ops.transpose.to(bad))
    with pytest.raises(tq.ContractError) as caught:
        tq.use_implicit_args(jnp.transpose, handlers=table)(CASES["lora"].both()[0])
    text = str(caught.value)
    assert text.startswith("handler bad for `transpose` (")
    assert f"{__file__}:" in text.splitlines()[0]
    assert (
        'returned LoraMatrix f32[3,4], annotated Float[LoraMatrix, "n m"], which here is [4,3].'
        in text
    )
    assert 'm = 3  from w: Float[LoraMatrix, "m n"], axis 0 of LoraMatrix f32[3,4]' in text
    assert 'n = 4  from w: Float[LoraMatrix, "m n"], axis 1 of LoraMatrix f32[3,4]' in text


def test_a_result_of_another_class_than_annotated_is_an_error() -> None:
    def dense(x: Box, /) -> Box:
        return -x.x  # type: ignore[return-value]  # that is the mistake

    with pytest.raises(tq.ContractError, match=r"returned Array f32\[3,4\], annotated Box"):
        run_negated(dense, Box(SAME))

    def other(x: Box, /) -> Box:
        return Plain(-x.x)  # type: ignore[return-value]  # that is the mistake

    with pytest.raises(tq.ContractError, match=r"returned Plain f32\[3,4\], annotated Box"):
        run_negated(other, Box(SAME))


def test_array_in_a_result_means_dense_or_implicit_as_it_does_to_type_checkers() -> None:
    def implicit(x: Box, /) -> Float[Array, "..."]:
        return Box(-x.x)

    assert type(run_negated(implicit, Box(SAME))) is Box


def test_a_result_of_another_dtype_than_annotated_is_an_error() -> None:
    def low(x: Box, /) -> Float[Array, "..."]:
        return jnp.zeros(x.shape, jnp.int32)

    with pytest.raises(
        tq.ContractError, match=r"returned Array i32\[3,4\], annotated Float\[Array"
    ):
        run_negated(low, Box(SAME))


def test_an_unannotated_result_is_checked_against_the_primitive_alone() -> None:
    def untyped(x: Box, /):  # type: ignore[no-untyped-def]  # what is tested
        return Plain(-x.x)

    close(tq.materialize(run_negated(untyped, Box(SAME))), -SAME)


def test_results_of_several_are_checked_one_by_one() -> None:
    def halves(x: Box, /, *, sizes: Any, axis: int) -> tuple[Float[Array, "..."], Box]:
        one, two = jnp.split(x.x, 2, axis=axis)
        return one, Box(two)

    def wrong(x: Box, /, *, sizes: Any, axis: int) -> tuple[Box, Box]:
        one, two = jnp.split(x.x, 2, axis=axis)
        return Box(one), two  # type: ignore[return-value]  # that is the mistake

    f: Callable[..., Any] = lambda x: jnp.split(x, 2)
    good = tq.use_implicit_args(f, handlers=tq.HandlerTable("t", ops.split.to(halves)))
    close(tq.materialize(good(Box(f32(4) + 1.0))), [jnp.ones(2), jnp.ones(2)])
    bad = tq.use_implicit_args(f, handlers=tq.HandlerTable("t", ops.split.to(wrong)))
    with pytest.raises(
        tq.ContractError, match=r"returned Array f32\[2\], annotated tuple\[.*Box, .*Box\]"
    ):
        bad(Box(f32(4)))


def test_a_named_param_is_checked_against_its_annotation() -> None:
    def summed(x: Box, /, *, axes: list[str], **params: Any) -> Array:
        return x.x.sum(0)

    table = tq.HandlerTable("t", ops.reduce_sum.to(summed))  # type: ignore[arg-type]  # the mistake
    with pytest.raises(tq.ContractError) as caught:
        transformed(lambda x: x.sum(axis=0), handlers=table)(Box(SAME))
    assert str(caught.value).startswith("the param 'axes' of summed (")
    assert "is a tuple of 1, annotated list[str]." in str(caught.value)


def test_numpy_integers_in_params_are_integers() -> None:
    def summed(x: Box, /, *, axes: tuple[int, ...], **params: Any) -> Array:
        return x.x.sum(axes)

    table = tq.HandlerTable("t", ops.reduce_sum.to(summed))
    f = transformed(
        lambda x: jax.lax.reduce_sum_p.bind(x, axes=(np.int64(0),), out_sharding=None),
        handlers=table,
    )
    close(f(Box(SAME)), SAME.sum(0))


# --- (c) handlers against the primitive -----------------------------------------------------------


def test_a_result_of_another_shape_than_the_primitive_gives_is_an_error() -> None:
    def row(x: Box, /) -> Array:
        return -x.x[0]

    with pytest.raises(tq.ContractError) as caught:
        run_negated(row, Box(SAME))
    text = str(caught.value)
    assert text.startswith("handler row for `neg` (")
    assert "returned Array f32[4], but neg(Box f32[3,4]) is Array f32[3,4]." in text
    assert "its result has the same shape and dtype" in text


def test_a_result_of_another_dtype_than_the_primitive_gives_is_an_error() -> None:
    def low(x: Box, /) -> Array:
        return -x.x.astype(jnp.bfloat16)

    with pytest.raises(
        tq.ContractError, match=r"returned Array bf16\[3,4\], but neg\(.*\) is Array f32\[3,4\]"
    ):
        run_negated(low, Box(SAME))


def test_the_other_operand_is_not_the_sum_when_shapes_broadcast() -> None:
    def plus(x: Box, y: Float[Array, ""], /) -> Array:
        return y

    table = tq.HandlerTable("t", ops.add.to(plus))
    with pytest.raises(tq.ContractError, match=r"returned Array f32\[\], but add\("):
        transformed(lambda x: x + 1.0, handlers=table)(Box(SAME))


RESULTS: dict[str, tuple[Any, str]] = {
    "none": (None, "returned None; an array is due.\n  Return the array; to decline"),
    "number": (1.5, "returned 1.5; an array is due.\n  Return an array of the result's shape"),
    "tuple": ((SAME,), "returned a tuple of 1; an array is due.\n  `neg` has one result."),
    "list": ([SAME], "returned a list of 1; an array is due.\n  `neg` has one result."),
    "the class of DECLINE": (
        tq.Declined,
        "an array is due.\n  It is the class of what declines: did you mean typedqax.DECLINE?",
    ),
    "string": ("s", "returned 's'; an array is due."),
    "generator": (iter(()), "returned an object of type tuple_iterator; an array is due."),
}


@pytest.mark.parametrize(("result", "text"), RESULTS.values(), ids=RESULTS.keys())
def test_a_result_that_is_no_array_has_a_message_of_its_own(result: Any, text: str) -> None:
    def handler(x: Box, /) -> Any:
        return result

    with pytest.raises(tq.ContractError) as caught:
        run_negated(handler, Box(SAME))
    assert text in str(caught.value)


def test_one_result_where_several_are_due_is_an_error() -> None:
    def one(x: Box, /, **params: Any) -> Any:
        return x.x

    f = transformed(lambda x: jnp.split(x, 2), handlers=tq.HandlerTable("t", ops.split.to(one)))
    with pytest.raises(
        tq.ContractError, match="`split` has several results: return a list or tuple"
    ):
        f(Box(f32(4)))


def test_too_few_results_are_an_error() -> None:
    def one(x: Box, /, **params: Any) -> Any:
        return [x.x[:2]]

    f = transformed(lambda x: jnp.split(x, 2), handlers=tq.HandlerTable("t", ops.split.to(one)))
    with pytest.raises(
        tq.ContractError,
        match=r"returned Array f32\[2\], but split\(.* is Array f32\[2\], Array f32\[2",
    ):
        f(Box(f32(4)))


def test_numpy_results_are_arrays() -> None:
    def numpy_negated(x: Box, /) -> Array:
        return -np.asarray(x.x)  # type: ignore[return-value]  # numpy serves

    close(run_negated(numpy_negated, Box(SAME)) + 0.0, -SAME)


def test_weakly_typed_results_become_strong() -> None:
    def weak(x: Box, /) -> Array:
        return jnp.asarray(2.0)

    assert jnp.asarray(2.0).weak_type
    result = run_negated(weak, Box(f32()))
    assert not result.weak_type
    assert result.dtype == jnp.float32


def test_contracts_hold_under_jit_at_trace_time() -> None:
    def row(x: Box, /) -> Array:
        return -x.x[0]

    table = tq.HandlerTable("t", ops.neg.to(row))
    with pytest.raises(tq.ContractError):
        jax.eval_shape(tq.use_implicit_args(jax.jit(jnp.negative), handlers=table), Box(SAME))


def test_a_call_that_was_accepted_once_is_still_checked_when_it_gives_something_else() -> None:
    results = [SAME, SAME, SAME[0]]

    def handler(x: Box, /) -> Array:
        return results.pop(0)

    table = tq.HandlerTable("t", ops.neg.to(handler))
    f = tq.use_implicit_args(jnp.negative, handlers=table)
    f(Box(SAME))
    f(Box(SAME))
    with pytest.raises(tq.ContractError, match=r"returned Array f32\[4\]"):
        f(Box(SAME))


def test_calls_with_other_sizes_do_not_conflict() -> None:
    def negated(x: Float[Box, "m n"], /) -> Float[Array, "m n"]:
        return -x.x

    table = tq.HandlerTable("t", ops.neg.to(negated))
    f = tq.use_implicit_args(jnp.negative, handlers=table)
    for shape in ((2, 3), (4, 5), (2, 3)):
        assert f(Box(f32(*shape))).shape == shape


def test_an_error_stays_short_and_shows_no_contents() -> None:
    def handler(x: Shaped[Box, "..."], /) -> Any:
        return [np.full((100, 100), 7.125)] * 1000

    with pytest.raises(tq.ContractError) as caught:
        run_negated(handler, Box(SAME))
    assert len(str(caught.value)) < 4000
    assert "7.125" not in str(caught.value)


# --- params (decision 7) --------------------------------------------------------------------------


def test_a_param_that_is_none_is_dropped_when_the_handler_does_not_name_it() -> None:
    def times(x: Box, y: Float[Array, "..."], /) -> Array:
        return x.x * y

    table = tq.HandlerTable("t", ops.mul.to(times))
    with tq.materialization("error"):
        close(transformed(lambda x: x * SAME, handlers=table)(Box(SAME)), SAME * SAME)


def test_a_param_that_is_not_none_makes_a_handler_decline_that_does_not_name_it() -> None:
    def times(x: Box, y: Array, /, *, dimension_numbers: Any) -> Array:
        raise AssertionError("it must not be called with a param that it does not know")

    table = tq.HandlerTable("t", ops.dot_general.to(times))  # type: ignore[arg-type]  # the mistake
    f = transformed(lambda x: jnp.matmul(x, SAME.T, precision="highest"), handlers=table)
    close(f(Box(SAME)), SAME @ SAME.T)


def test_the_report_says_which_param_made_a_handler_decline() -> None:
    def times(x: Box, y: Array, /, *, dimension_numbers: Any) -> Array:
        raise AssertionError

    table = tq.HandlerTable("t", ops.dot_general.to(times))  # type: ignore[arg-type]  # the mistake
    f = transformed(lambda x: jnp.matmul(x, SAME.T, precision="highest"), handlers=table)
    with tq.materialization("error"), pytest.raises(tq.MaterializationError) as caught:
        f(Box(SAME))
    assert "declined" in str(caught.value)
    assert "precision" in str(caught.value) or "preferred_element_type" in str(caught.value)


def test_ignoring_a_param_that_decides_the_numbers_is_a_signature_error() -> None:
    def summed(x: Box, /, **_: Any) -> Array:
        return x.x

    with pytest.raises(tq.SignatureError, match="axes"):
        ops.reduce_sum.to(summed)


def test_params_are_passed_on_to_one_who_takes_them_all() -> None:
    seen = []

    def summed(x: Box, /, **params: Any) -> Array:
        seen.append(params)
        return ops.reduce_sum.bind(x.x, **params)

    table = tq.HandlerTable("t", ops.reduce_sum.to(summed))
    close(transformed(lambda x: x.sum(axis=1), handlers=table)(Box(SAME)), SAME.sum(1))
    assert seen[0]["axes"] == (1,)


# --- switched off ---------------------------------------------------------------------------------


def test_checks_can_be_switched_off_for_a_block() -> None:
    with tq.checks(False):
        wrong = LoraMatrix(f32(3, 4), f32(5, 2), f32(4, 2))
        close(run_negated(lambda_row, Box(SAME)), -SAME[0])
    with pytest.raises(tq.ContractError):
        LoraMatrix(wrong.w, wrong.a, wrong.b)
    with pytest.raises(tq.ContractError):
        run_negated(lambda_row, Box(SAME))


def lambda_row(x: Box, /) -> Array:
    return -x.x[0]


def test_checks_can_be_switched_off_for_a_function() -> None:
    @tq.checks(False)
    def f() -> Any:
        return LoraMatrix(f32(3, 4), f32(5, 2), f32(4, 2))

    assert f().a.shape == (5, 2)
    with pytest.raises(tq.ContractError):
        LoraMatrix(f32(3, 4), f32(5, 2), f32(4, 2))


def test_checks_nest() -> None:
    with tq.checks(False):
        with tq.checks(True), pytest.raises(tq.ContractError):
            LoraMatrix(f32(3, 4), f32(5, 2), f32(4, 2))
        LoraMatrix(f32(3, 4), f32(5, 2), f32(4, 2))


def test_a_block_that_ends_in_another_context_says_so() -> None:
    block, context = tq.checks(False), contextvars.copy_context()
    context.run(block.__enter__)
    with pytest.raises(tq.UsageError, match="another thread or context than it began in"):
        block.__exit__(None, None, None)
    with pytest.raises(tq.ContractError):
        LoraMatrix(f32(3, 4), f32(5, 2), f32(4, 2))


@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_which_handler_runs_does_not_depend_on_the_checks(enabled: bool) -> None:
    ran = []

    def square(x: Float[Box, "n n"], /) -> Any:
        ran.append("square")
        return -x.x

    def any_(x: Float[Box, "..."], /) -> Any:
        ran.append("any")
        return -x.x

    table = tq.HandlerTable("t", ops.neg.to(square), ops.neg.to(any_))
    with tq.checks(enabled):
        for shape in ((2, 2), (2, 3), (2,)):
            tq.use_implicit_args(jnp.negative, handlers=table)(Box(f32(*shape)))
    assert ran == ["square", "any", "any"]


@pytest.mark.parametrize("setting", ["off", "on"])
def test_the_environment_switches_checks_for_a_process(setting: str) -> None:
    program = (
        "import typedqax as tq\n"
        "from typedqax._contracts import checks_enabled\n"
        "print(checks_enabled())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TYPEDQAX_CHECKS": setting},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == str(setting == "on")


def test_checks_add_nothing_to_the_program() -> None:
    value = CASES["scaled"].both()[0]

    def negate(x: Scaled, /) -> Scaled:
        return Scaled(x.x, -x.factor)

    f = tq.use_implicit_args(jnp.negative, handlers=tq.HandlerTable("t", ops.neg.to(negate)))
    checked = str(jax.make_jaxpr(f)(value))
    with tq.checks(False):
        assert str(jax.make_jaxpr(f)(value)) == checked


def test_int8_fields_of_a_quantized_class_are_checked() -> None:
    class Quantized(tq.ImplicitArray):
        values: Int8[Array, "m n"]
        scale: Float[Array, "1 n"]

        def materialize(self) -> Float[Array, "m n"]:
            return self.values.astype(self.scale.dtype) * self.scale

    Quantized(jnp.zeros((3, 4), jnp.int8), f32(1, 4))
    with pytest.raises(tq.ContractError, match="scale"):
        Quantized(jnp.zeros((3, 4), jnp.int8), f32(2, 4))
    with pytest.raises(tq.ContractError, match="values"):
        Quantized(jnp.zeros((3, 4), jnp.int16), f32(1, 4))
