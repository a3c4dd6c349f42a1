"""Programs that once gave a wrong number, a hang or a bare error, and what they give now."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float, Int

import typedqax as tq
from typedqax import ops


class Box(tq.ImplicitArray, materialization="allow"):
    """An array in a box."""

    x: tq.ArrayValue

    def materialize(self) -> Array:
        return self.x


class Scaled(tq.ImplicitArray, materialization="allow"):
    """An array whose meaning depends on the type of a number beside it."""

    x: tq.ArrayValue
    s: Any = tq.aux_field(default=1)

    def materialize(self) -> Array:
        half = self.x / 2 if isinstance(self.s, float) else self.x // 2
        scaled: Array = (half * self.s).astype(jnp.float32)
        return scaled


class Angle(tq.ImplicitArray, materialization="allow"):
    """The angle of `x` over a number whose sign counts."""

    x: tq.ArrayValue
    over: float = tq.aux_field(default=1.0)

    def materialize(self) -> Array:
        return jnp.arctan2(self.x, jnp.full_like(self.x, self.over))


class Vector(tq.ImplicitArray, materialization="allow"):
    """A vector."""

    x: Float[tq.ArrayValue, "n"]

    def materialize(self) -> Float[Array, "n"]:
        return self.x


@pytest.mark.parametrize("wrap", [tq.use_implicit_args, lambda f: jax.jit(tq.use_implicit_args(f))])
def test_what_is_compiled_for_an_int_is_not_run_on_an_equal_float(wrap: Any) -> None:
    f = wrap(jax.jit(lambda p: p + jnp.float32(0)))
    x = jnp.array([3])
    assert f(Scaled(x, 1)).tolist() == [1.0]
    assert f(Scaled(x, 1.0)).tolist() == [1.5]
    assert f(Scaled(x, 1)).tolist() == [1.0]


def test_what_is_compiled_for_zero_is_not_run_on_minus_zero() -> None:
    f = jax.jit(tq.use_implicit_args(lambda angle: angle + jnp.float32(0)))
    x = jnp.zeros(1)
    assert f(Angle(x, 0.0)).tolist() == [0.0]
    np.testing.assert_allclose(f(Angle(x, -0.0)), [np.pi], rtol=1e-6)


def test_dtypes_follow_numbers_inside_tuples_of_auxiliary_data() -> None:
    class Pair(tq.ImplicitArray, materialization="allow"):
        x: tq.ArrayValue
        s: tuple[float, ...] = tq.aux_field(default=(1,))

        def materialize(self) -> Array:
            return self.x * self.s[0]

    with jax.numpy_dtype_promotion("standard"):
        assert Pair(jnp.arange(3), (2,)).dtype == np.dtype("int32")
        assert Pair(jnp.arange(3), (2.0,)).dtype == np.dtype("float32")


def test_what_a_handler_gives_as_numpy_is_an_array_of_jax() -> None:
    def neg(box: Box, /) -> Array:
        return np.asarray(-box.x)  # type: ignore[return-value]  # the mistake

    table = tq.HandlerTable("numpy", ops.neg.to(neg))

    def f(box: Array) -> Array:
        return (-box).at[0].set(0.0) * np.float32(2)

    result = tq.use_implicit_args(f, handlers=table)(Box(jnp.ones(3)))
    assert isinstance(result, jax.Array)
    assert result.tolist() == [0.0, -2.0, -2.0]
    assert isinstance(tq.materialize(Box(np.arange(3))), jax.Array)  # type: ignore[arg-type]  # numpy


def test_one_policy_object_serves_overlapping_threads() -> None:
    policy = tq.materialization("error")
    both_in, results = threading.Barrier(2), []

    def work(first: bool) -> None:
        with policy:
            both_in.wait()
            if first:
                both_in.wait()  # leaves after the other
        if not first:
            both_in.wait()
        results.append(tq.use_implicit_args(jnp.negative)(Box(jnp.ones(1))).tolist())

    threads = [threading.Thread(target=work, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[-1.0], [-1.0]]


def test_a_handler_that_applies_its_primitive_to_its_own_operand_is_named() -> None:
    def negate(box: Box, /) -> Box:
        return -box  # type: ignore[return-value]  # to a checker, an operator gives an Array

    table = tq.HandlerTable("endless", ops.neg.to(negate))
    with pytest.raises(tq.ContractError, match=r"handler negate for `neg` \(.*for ever"):
        tq.use_implicit_args(lambda box: -box, handlers=table)(Box(jnp.ones(3)))


def test_a_handler_that_defers_inside_a_transformation_is_named() -> None:
    def mul(box: Box, y: Array, /, **params: Any) -> Array:
        deferred = jax.checkpoint(lambda b, y: tq.default_handler(ops.mul, b, y, **params))
        result: Array = deferred(box, y)
        return result

    table = tq.HandlerTable("endless", ops.mul.to(mul))
    with pytest.raises(tq.ContractError, match="close over them"):
        tq.use_implicit_args(lambda b, y: b * y, handlers=table)(Box(jnp.ones(3)), jnp.ones(3))


def test_a_handler_may_apply_its_primitive_to_the_same_fields_with_other_auxiliary_data() -> None:
    def neg(scaled: Scaled, /) -> Array:
        if scaled.s == 1:
            return -scaled.x
        result: Array = -Scaled(scaled.x, 1) * scaled.s
        return result

    table = tq.HandlerTable("other", ops.neg.to(neg))
    got = tq.use_implicit_args(lambda x: -x, handlers=table)(Scaled(jnp.arange(3.0), 4))
    assert got.tolist() == [0.0, -4.0, -8.0]


class Power(tq.ImplicitArray):
    """A power of a matrix, made of the one before."""

    base: Float[tq.ArrayValue, "n n"]
    exponent: int = tq.aux_field()

    def materialize(self) -> Array:
        if self.exponent == 0:
            return jnp.eye(self.base.shape[0])
        return self.base @ tq.materialize(Power(self.base, self.exponent - 1))


class Hadamard(tq.ImplicitArray):
    """A matrix without fields, made of the one of half its size."""

    def materialize(self) -> Array:
        half = self.shape[0] // 2
        if half == 0:
            return jnp.ones((1, 1), self.dtype)
        h = tq.materialize(Hadamard(shape=(half, half), dtype=self.dtype))
        return jnp.block([[h, h], [h, -h]])


def test_materialize_may_make_dense_what_differs_by_auxiliary_data_or_by_shape() -> None:
    power = Power(jnp.array([[1.0, 1.0], [0.0, 1.0]]), 3)
    assert tq.materialize(power).tolist() == [[1.0, 3.0], [0.0, 1.0]]
    h = tq.materialize(Hadamard(shape=(4, 4), dtype=jnp.float32))
    assert (h @ h.T).tolist() == (4 * jnp.eye(4)).tolist()


def test_a_recursion_of_the_user_s_own_in_a_handler_stays_what_it_is() -> None:
    def endless(depth: int) -> int:
        return endless(depth + 1) + 1

    def neg(box: Box, /) -> Box:
        endless(0)
        return box

    table = tq.HandlerTable("own", ops.neg.to(neg))
    with pytest.raises(RecursionError):
        tq.use_implicit_args(lambda box: -box, handlers=table)(Box(jnp.ones(3)))


def test_a_result_of_another_dtype_is_said_to_be_one() -> None:
    def neg(x: Float[Vector, "n"], /) -> Int[Vector, "n"]:
        return x

    table = tq.HandlerTable("dtype", ops.neg.to(neg))
    with pytest.raises(tq.ContractError, match="float32 is another dtype"):
        tq.use_implicit_args(lambda x: -x, handlers=table)(Vector(jnp.ones(3)))


def test_a_list_in_an_array_field_is_refused_with_the_cure() -> None:
    with pytest.raises(tq.ContractError, match=r"Vector\.x holds a list.*\n.*jnp\.asarray"):
        Vector([1.0, 2.0])  # type: ignore[arg-type]  # the mistake


def test_what_numpy_asks_for_is_not_said_to_want_a_handler() -> None:
    class Loud(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            return self.x

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.asarray(Loud(jnp.ones(2)))
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "call tq.materialize(...) first" in text
    assert "primitive_handler" not in text


def test_which_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match=r"given is 'dot'.*typedqax\.explain\(dot\)"):
        tq.which(jnp.dot, jnp.ones(3))  # type: ignore[arg-type]  # the mistake
    with pytest.raises(TypeError, match="no primitive 'dot_generall'"):
        tq.which("dot_generall", jnp.ones(3))
    assert tq.which("neg", jnp.ones(3)).primitive == "neg"


def test_an_annotation_of_materialize_that_promises_nothing_is_no_crash() -> None:
    class Declining(tq.ImplicitArray, materialization="allow"):
        x: tq.ArrayValue

        def materialize(self) -> tq.Declined:  # type: ignore[override]  # the mistake
            return self.x  # type: ignore[return-value]  # as above

    assert tq.materialize(Declining(jnp.ones(2))).tolist() == [1.0, 1.0]


def test_a_class_that_was_defined_anew_makes_nothing_ambiguous() -> None:
    class Left(tq.ImplicitArray):
        a: tq.ArrayValue

        def materialize(self) -> Array:
            return self.a

    class Right(tq.ImplicitArray):
        b: tq.ArrayValue

        def materialize(self) -> Array:
            return self.b

    def define(*bases: type) -> type:
        return type("Joined", bases, {"__module__": __name__, "__qualname__": "Joined"})

    def left(x: Left, /) -> Array:
        return x.a

    def right(x: Right, /) -> Array:
        return x.b

    joined = define(Left, Right)
    with pytest.raises(tq.AmbiguityError, match="Joined"):
        tq.HandlerTable("clash", ops.neg.to(left), ops.neg.to(right))
    mended = define(Left)
    assert issubclass(joined, Right)
    assert not issubclass(mended, Right)
    tq.HandlerTable("clash", ops.neg.to(left), ops.neg.to(right))
