"""Which handler a call would run, and how the others stand to it: text, data and wrong uses."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from typedqax import ops


class Twice(tq.ImplicitArray):
    half: Float[tq.ArrayValue, "*axes"]

    def materialize(self) -> Float[Array, "*axes"]:
        return 2 * self.half


class Other(tq.ImplicitArray):
    x: Float[tq.ArrayValue, "*axes"]

    def materialize(self) -> Float[Array, "*axes"]:
        return self.x + 1


def negate(x: Twice, /) -> Twice:
    return Twice(-x.half)


def add_matrix(x: Float[Twice, "m n"], y: Float[Array, "m n"], /) -> Twice:
    return Twice(x.half + y / 2)


def add_any(x: Twice, y: Array, /) -> Twice | tq.Declined:
    return tq.DECLINE


def transpose(x: Float[Twice, "m n"], /, *, permutation: tuple[int, ...]) -> Float[Twice, "n m"]:
    return Twice(x.half.T)


def reduce(x: Twice, /, *, axes: tuple[int, ...]) -> Array:
    return 2 * x.half.sum(axes)


TABLE = tq.HandlerTable(
    "t", ops.neg.to(negate), ops.add.to(add_matrix, commutative=True),
    ops.add.to(add_any, commutative=True),
    ops.transpose.to(transpose), ops.reduce_sum.to(reduce),
)  # fmt: skip
TWO = Twice(jnp.ones((2, 3)))
MATRIX = jnp.ones((2, 3))


def at(function: Any) -> str:
    return f"test_which.py:{function.__code__.co_firstlineno}"


def lines(found: tq._which.Which) -> list[str]:
    """The text, with the folders of places left out."""
    return str(found).replace("tests/test_which.py", "test_which.py").splitlines()


# --- what is told --------------------------------------------------------------------------------


def test_the_winner_its_axes_and_the_rest_in_order_are_told() -> None:
    assert lines(tq.which(ops.add, TWO, MATRIX, handlers=TABLE)) == [
        f"add(Twice f32[2,3], Array f32[2,3]): add_matrix ({at(add_matrix)})",
        "  with m = 2, n = 3",
        f'  1  add_matrix(x: Float[Twice, "m n"], y: Float[Array, "m n"])  {at(add_matrix)}',
        "     the most specific one",
        f"  2  add_any(x: Twice, y: Array)  {at(add_any)}",
        "     if add_matrix declines; it may decline",
    ]


def test_why_a_handler_does_not_apply_is_told() -> None:
    assert lines(tq.which(ops.add, TWO, jnp.ones(3), handlers=TABLE)) == [
        f"add(Twice f32[2,3], Array f32[3]): add_any ({at(add_any)})",
        f"  1  add_any(x: Twice, y: Array)  {at(add_any)}",
        "     the most specific one; it may decline",
        f'  -  add_matrix(x: Float[Twice, "m n"], y: Float[Array, "m n"])  {at(add_matrix)}',
        "     operand 2: rank 1, expected 2",
    ]


def test_operands_the_other_way_round_are_told() -> None:
    found = tq.which(ops.add, MATRIX, TWO, handlers=TABLE)
    assert found.winner is not None
    assert found.winner.reason == "the most specific one, its operands swapped"


def test_without_a_handler_the_operands_become_dense() -> None:
    assert lines(tq.which(ops.sin, TWO, handlers=TABLE)) == [
        "sin(Twice f32[2,3]): no handler takes it; implicit operands become dense.",
    ]


def test_what_the_library_does_itself_is_not_said_to_become_dense() -> None:
    assert "applied to the fields" in tq.which(ops.stop_gradient, TWO).outcome
    assert "applied to the fields" in tq.which("scan", TWO).outcome


def test_without_an_implicit_operand_no_handler_is_asked() -> None:
    assert lines(tq.which(ops.add, MATRIX, 2, handlers=TABLE)) == [
        "add(Array f32[2,3], Array i32[]): no operand is implicit, so no handler is asked.",
    ]


def test_params_that_a_handler_does_not_take_make_it_decline() -> None:
    found = tq.which(ops.reduce_sum, TWO, axes=(0,), out_sharding="here", handlers=TABLE)
    assert found.winner is None
    assert found.choices[0].reason == (
        "it would decline: it does not take the param 'out_sharding', which is not None in this "
        "call"
    )
    assert not found.choices[0].applies


def test_params_left_out_play_no_part() -> None:
    for params in ({}, {"axes": (0,)}, {"out_sharding": None}):
        found = tq.which(ops.reduce_sum, TWO, handlers=TABLE, **params)
        assert found.winner is not None
        assert found.winner.handler == "reduce"


def test_a_call_without_a_single_best_handler_is_told() -> None:
    class Left(Other): ...

    def left(x: Left, y: tq.ArrayValue, /):  # type: ignore[no-untyped-def]  # may decline, for all that is known
        return x

    def right(x: tq.ArrayValue, y: Left, /) -> Left:
        return y

    def both(x: Left, y: Left, /):  # type: ignore[no-untyped-def]  # the same
        return x

    table = tq.HandlerTable("ties", ops.mul.to(left), ops.mul.to(right), ops.mul.to(both))
    one = Left(MATRIX)
    found = tq.which(ops.mul, one, one, handlers=table)
    assert found.winner is not None
    assert found.winner.handler == "both"
    assert [choice.reason for choice in found.choices[1:]] == [
        "if both declines; it may decline; others are as good, so that this is an AmbiguityError",
        "if left declines",
    ]


KINDS: dict[str, Any] = {
    "arrays": (TWO, MATRIX),
    "structures": (
        Twice(jax.ShapeDtypeStruct((2, 3), jnp.float32)),  # type: ignore[arg-type]  # a stand-in
        jax.ShapeDtypeStruct((2, 3), jnp.float32),
    ),
    "numpy": (TWO, MATRIX.__array__()),
}


@pytest.mark.parametrize("operands", KINDS.values(), ids=KINDS.keys())
def test_operands_need_no_numbers(operands: Any) -> None:
    found = tq.which(ops.add, *operands, handlers=TABLE)
    assert found.winner is not None
    assert (found.winner.handler, found.bindings) == ("add_matrix", {"m": 2, "n": 3})


@pytest.mark.parametrize("op", [ops.neg, "neg", lax.neg_p], ids=["op", "name", "primitive"])
def test_an_op_its_name_and_its_primitive_are_the_same(op: Any) -> None:
    found = tq.which(op, TWO, handlers=TABLE)
    assert found.winner is not None
    assert found.winner.handler == "negate"


def test_inside_a_transform_its_handlers_decide() -> None:
    found: list[Any] = []
    tq.use_implicit_args(lambda x: found.append(tq.which(ops.neg, x)), handlers=TABLE)(TWO)
    assert found[0].winner.handler == "negate"


# --- data ----------------------------------------------------------------------------------------


def test_it_is_data_that_survives_json() -> None:
    found = tq.which(ops.neg, TWO, handlers=TABLE).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found["winner"] == {
        "handler": "negate",
        "place": f"{__file__}:{negate.__code__.co_firstlineno}",
        "signature": "x: Twice",
        "applies": True,
        "reason": "the most specific one",
    }
    assert tq.which(ops.sin, TWO, handlers=TABLE).to_dict()["winner"] is None


def test_notebooks_show_the_winner_and_escape_what_users_wrote() -> None:
    page = tq.which(ops.add, TWO, MATRIX, handlers=TABLE)._repr_html_()
    assert page.count('<tr class="fine">') == 1
    assert "Float[Twice, &quot;m n&quot;]" in page
    assert "with m = 2, n = 3" in page


def test_a_prompt_shows_the_text() -> None:
    found = tq.which(ops.add, TWO, MATRIX, handlers=TABLE)
    assert repr(found) == str(found)


# --- wrong uses ----------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, str]] = {
    "a number": (lambda: tq.which(3, TWO), "what was given is of type int."),  # type: ignore[arg-type]  # wrong on purpose
    "a function": (
        lambda: tq.which(jnp.dot, TWO, TWO),  # type: ignore[arg-type]  # wrong on purpose
        "what was given is 'dot'. For what a whole function does, call typedqax.explain(dot)(...).",
    ),
    "no name of a primitive": (
        lambda: tq.which("dot_generl", TWO),
        "JAX has no primitive 'dot_generl'. Did you mean 'dot_general'?",
    ),
    "a function of JAX": (
        lambda: tq.which("einsum", TWO),
        "JAX has no primitive 'einsum'. JAX computes it by ops.dot_general.",
    ),
    "a group": (
        lambda: tq.which(ops.elementwise_unary, TWO),
        "which takes one op; ops.elementwise_unary is a group of them.",
    ),
    "too few": (lambda: tq.which(ops.add, TWO), "ops.add takes 2 operands, and got 1"),
    "too many": (lambda: tq.which(ops.neg, TWO, TWO), "ops.neg takes 1 operand, and got 2"),
    "no such param": (
        lambda: tq.which(ops.transpose, TWO, permutations=(1, 0)),
        "has no param 'permutations'. Did you mean 'permutation'? It has: permutation.",
    ),
    "a param of an op without any": (
        lambda: tq.which(ops.sub, TWO, TWO, axis=0),
        "ops.sub has no param 'axis'.",
    ),
    "a param by position": (
        lambda: tq.which(ops.transpose, TWO, (1, 0)),
        "operand 2 is of type tuple.",
    ),
    "a string": (lambda: tq.which(ops.add, TWO, "x"), "operand 2 is of type str."),
    "None": (lambda: tq.which(ops.add, None, TWO), "operand 1 is of type NoneType."),
    "a class": (
        lambda: tq.which(ops.neg, Twice),
        "operand 1 is the class Twice; pass an instance, whose fields may be ShapeDtypeStructs.",
    ),
    "no table": (
        lambda: tq.which(ops.neg, TWO, handlers=[TABLE]),  # type: ignore[arg-type]  # wrong on purpose
        "handlers= takes a HandlerTable, not list.",
    ),
}


@pytest.mark.parametrize(("call", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_use_is_told(call: Any, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    assert said in str(caught.value)
