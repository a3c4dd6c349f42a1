"""`primitive_handler`: what it is for, what it declares, and in which orders of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jax.extend.core import Primitive

import typedqax as tq
from typedqax import ops
from typedqax._installed import installed_table
from typedqax._rule import Rule


class Box(tq.ImplicitArray, materialization="error"):
    inner: Array

    def materialize(self) -> Array:
        return self.inner


class Cup(tq.ImplicitArray):
    inner: Array

    def materialize(self) -> Array:
        return self.inner


class Ordered(tq.ImplicitArray, commute_ops=False):
    inner: Array

    def materialize(self) -> Array:
        return self.inner


def box(*values: float) -> Box:
    return Box(jnp.array(values, jnp.float32))


def opened(function: Callable[..., Array], *operands: Array) -> Array:
    """What is in the box that `function` of implicit operands gives."""
    result = tq.use_implicit_args(function)(*operands)
    assert isinstance(result, Box)
    return result.inner


def declared() -> list[Rule]:
    return list(installed_table().rules)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        pytest.param("neg", {"neg"}, id="a name"),
        pytest.param("not", {"not"}, id="a keyword of Python"),
        pytest.param("scatter_add", {"scatter-add"}, id="a name as in lax"),
        pytest.param("add_any", {"add_any"}, id="a name as in a jaxpr"),
        pytest.param(lax.neg_p, {"neg"}, id="a primitive"),
        pytest.param(ops.neg, {"neg"}, id="an op"),
        pytest.param(ops.reduce_max | ops.reduce_min, {"reduce_max", "reduce_min"}, id="a group"),
        pytest.param(["neg", ops.abs, lax.sin_p], {"neg", "abs", "sin"}, id="a list of each"),
        pytest.param(
            (ops.cumulative, "neg"), {*(o.name for o in ops.cumulative), "neg"}, id="both"
        ),
        pytest.param(["neg", "neg", ops.neg], {"neg"}, id="one thing, often"),
        pytest.param(ops.any_primitive, {"*"}, id="any primitive"),
    ],
)
def test_it_is_for_whatever_is_given(given: Any, names: set[str]) -> None:
    def handler(primitive: Primitive, x: Box, *rest: Array, **params: Any) -> Box:
        return x

    assert tq.primitive_handler(given)(handler) is handler
    (rule,) = declared()
    assert {target.name for target in rule.targets} == names


def test_the_handler_is_given_jax_s_own_primitive_and_then_operands_and_params() -> None:
    seen: list[object] = []

    @tq.primitive_handler(["transpose", ops.reshape])
    def move(primitive: Primitive, x: Box, **params: Any) -> Box:
        seen.append(primitive)
        return Box(tq.materialize(primitive.bind(x.inner, **params)))

    result = opened(lambda x: x.reshape(2, 2).T, box(1, 2, 3, 4))
    np.testing.assert_array_equal(result, [[1, 3], [2, 4]])
    assert seen == [lax.reshape_p, lax.transpose_p]


def test_a_handler_of_any_primitive_is_given_the_one_that_was_met() -> None:
    seen: list[object] = []

    @tq.primitive_handler(ops.any_primitive)
    def inside(primitive: Primitive, *operands: Box, **params: Any) -> Array:
        seen.append(primitive)
        result: Array = primitive.bind(*(x.inner for x in operands), **params)
        return result

    np.testing.assert_array_equal(tq.use_implicit_args(jnp.negative)(box(1, 2)), [-1, -2])
    assert seen == [lax.neg_p]


def test_a_handler_of_a_commutative_primitive_stands_for_both_orders() -> None:
    @tq.primitive_handler(["add", "sub"])
    def plus(primitive: Primitive, x: Box, y: Array) -> Box:
        return Box(primitive.bind(x.inner, y))

    one = jnp.ones(2)
    np.testing.assert_array_equal(opened(jnp.add, box(1, 2), one), [2, 3])
    np.testing.assert_array_equal(opened(jnp.add, one, box(1, 2)), [2, 3])
    np.testing.assert_array_equal(opened(jnp.subtract, box(1, 2), one), [0, 1])
    with pytest.raises(tq.MaterializationError):
        opened(jnp.subtract, one, box(1, 2))


def test_a_class_may_say_that_the_order_matters() -> None:
    @tq.primitive_handler("mul")
    def times(primitive: Primitive, x: Ordered, y: Array) -> Ordered:
        return x

    assert [rule.commutative for rule in declared()] == [False]


def test_precedence_is_passed_on() -> None:
    @tq.primitive_handler("neg", 3)
    def first(primitive: Primitive, x: Box) -> Box:
        return x

    @tq.primitive_handler("neg", precedence=4)
    def second(primitive: Primitive, x: Box) -> Box:
        return x

    assert [rule.precedence for rule in declared()] == [3, 4]


def test_not_implemented_goes_on_to_the_next_handler() -> None:
    @tq.primitive_handler("neg")
    def general(primitive: Primitive, x: tq.ImplicitArray) -> Box:
        return box(7)

    @tq.primitive_handler("neg")
    def special(primitive, x: Box):  # type: ignore[no-untyped-def]  # as the ancestor's users write
        return NotImplemented

    np.testing.assert_array_equal(opened(jnp.negative, box(1)), [7])


def test_a_second_handler_for_the_same_operands_is_refused_when_it_is_decorated() -> None:
    @tq.primitive_handler("neg")
    def first(primitive: Primitive, x: Box) -> Box:
        return x

    def second(primitive: Primitive, x: Box) -> Box:
        return x

    with pytest.raises(tq.DuplicateHandlerError, match="second"):
        tq.primitive_handler("neg")(second)
    assert [rule.handler.name for rule in declared()] == ["first"]


def test_nothing_is_declared_when_part_of_it_is_refused() -> None:
    @tq.primitive_handler("sub")
    def taken(primitive: Primitive, x: Box, y: Array) -> Box:
        return x

    def both(primitive: Primitive, x: Box, y: Array) -> Box:
        return x

    with pytest.raises(tq.DuplicateHandlerError):
        tq.primitive_handler(["add", "sub"])(both)
    assert [rule.handler.name for rule in declared()] == ["taken"]


def test_inside_declaring_nothing_is_checked_before_the_end() -> None:
    with tq.declaring():

        @tq.primitive_handler("add")
        def left(primitive: Primitive, x: Box, y: tq.ArrayValue) -> Box:
            return x

        @tq.primitive_handler("add")
        def right(primitive: Primitive, x: Cup, y: tq.ArrayValue) -> Cup:
            return x

        @tq.primitive_handler("add")
        def settled(primitive: Primitive, x: Box, y: Cup) -> Box:
            return x

        assert declared() == []
    assert {rule.handler.name for rule in declared()} == {"left", "right", "settled"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        pytest.param(
            "dot_genral", r"no primitive 'dot_genral'; did you mean 'dot_general'", id="misspelt"
        ),
        pytest.param("zzz", r"JAX has no primitive 'zzz'$", id="like nothing"),
        pytest.param(
            "dot_general_p", r"'dot_general_p'; did you mean 'dot_general'", id="as in lax"
        ),
        pytest.param(3, r"3 is no primitive: give a name", id="a number"),
        pytest.param(["neg", None], r"None is no primitive", id="in a list"),
        pytest.param([], r"no primitive is given", id="an empty list"),
    ],
)
def test_what_is_no_primitive_is_refused_with_what_to_do(given: Any, told: str) -> None:
    def handler(primitive: Primitive, x: Box, y: Array) -> Box:
        return x

    with pytest.raises(tq.SignatureError, match=told) as caught:
        tq.primitive_handler(given)(handler)
    assert "`handler`" in str(caught.value)
    assert "test_declaring.py:" in str(caught.value)
    assert declared() == []


def test_a_decorator_that_is_not_told_of_what_is_refused_at_once() -> None:
    def handler(primitive: Primitive, x: Box) -> Box:
        return x

    bare: Any = tq.primitive_handler
    with pytest.raises(tq.SignatureError, match=r"`handler` .*test_declaring.py.*@primitive_handl"):
        bare(handler)
    assert declared() == []


@pytest.mark.parametrize("precedence", ["high", None, 1.5], ids=repr)
def test_a_precedence_that_is_no_whole_number_is_refused(precedence: Any) -> None:
    def handler(primitive: Primitive, x: Box) -> Box:
        return x

    with pytest.raises(tq.SignatureError, match=rf"precedence={precedence!r}: it is a whole"):
        tq.primitive_handler("neg", precedence)(handler)
