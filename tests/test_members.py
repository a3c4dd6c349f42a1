"""The operators and methods of arrays, outside the transform, as on the dense array."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import typedqax as tq
from tests.implicit_world import (
    CASES,
    TABLE,
    Plain,
    Scaled,
    close,
    numbers,
)

pytestmark = pytest.mark.without_leak_checks

SAME = numbers(22, 3, 4)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": lambda a, b: abs(a) ** b,
    "divmod": divmod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

OTHERS: dict[str, Any] = {
    "jax array": SAME,
    "numpy array": np.asarray(SAME),
    "numpy scalar": np.float32(2.0),
    "python number": 2.0,
    "implicit array": Plain(SAME),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.parametrize("op", BINARY.values(), ids=BINARY.keys())
def test_binary_operators_work_on_either_side(op: Callable[[Any, Any], Any], other: Any) -> None:
    value, dense = CASES["lora"].both()
    plain = tq.materialize(other)
    close(tq.materialize(op(value, other)), op(dense, plain))
    if not (isinstance(other, np.generic) and op is BINARY["**"]):
        close(tq.materialize(op(other, value)), op(plain, dense))


@pytest.mark.parametrize(
    "op", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
)
def test_bitwise_operators_work_on_either_side(op: Callable[[Any, Any], Any]) -> None:
    dense = jnp.array([1, 5, 9])
    for other in (jnp.array([1, 2, 3]), np.array([1, 2, 3], np.int32), 2):
        close(op(Plain(dense), other), op(dense, other))
        close(op(other, Plain(dense)), op(other, dense))


def test_matmul_works_on_either_side_and_runs_the_handler() -> None:
    value, dense = CASES["lora"].both()
    left, right = numbers(1, 2, 3), numbers(2, 4, 2)
    close(left @ value, left @ dense)
    close(np.asarray(left) @ value, left @ dense)
    close(value @ right, dense @ right)
    close(value @ np.asarray(right), dense @ right)
    with tq.installed(TABLE), tq.materialization("error"):
        close(left @ value, left @ dense)


@pytest.mark.parametrize(
    "op",
    [operator.neg, operator.pos, operator.abs, lambda x: round(x, 1)],
    ids=["neg", "pos", "abs", "round"],
)
def test_unary_operators_work(op: Callable[[Any], Any]) -> None:
    value, dense = CASES["lora"].both()
    close(tq.materialize(op(value)), op(dense))


def test_invert_works() -> None:
    close(~Plain(jnp.array([1, 2])), ~jnp.array([1, 2]))


MEMBERS: dict[str, Callable[[Any], Any]] = {
    "T": lambda w: w.T,
    "mT": lambda w: w.mT,
    "real": lambda w: w.real,
    "imag": lambda w: w.imag,
    "at set": lambda w: w.at[0, 1].set(5.0),
    "at add": lambda w: w.at[1:].add(2.0, mode="drop"),
    "at get": lambda w: w.at[0].get(),
    "w[0]": lambda w: w[0],
    "w[-1, 1:]": lambda w: w[-1, 1:],
    "w[array]": lambda w: w[jnp.array([0, 2])],
    "w[..., None]": lambda w: w[..., None],
    "all": lambda w: w.all(),
    "any": lambda w: w.any(axis=0),
    "argmax": lambda w: w.argmax(axis=1),
    "argmin": lambda w: w.argmin(),
    "argsort": lambda w: w.argsort(axis=0),
    "astype": lambda w: w.astype(jnp.bfloat16),
    "clip": lambda w: w.clip(-1.0, 1.0),
    "conj": lambda w: w.conj(),
    "copy": lambda w: w.copy(),
    "cumsum": lambda w: w.cumsum(axis=0),
    "cumprod": lambda w: w.cumprod(),
    "diagonal": lambda w: w.diagonal(),
    "dot": lambda w: w.dot(numbers(1, 4)),
    "flatten": lambda w: w.flatten(),
    "max": lambda w: w.max(axis=0),
    "mean": lambda w: w.mean(),
    "min": lambda w: w.min(),
    "prod": lambda w: w.prod(axis=1),
    "ptp": lambda w: w.ptp(),
    "ravel": lambda w: w.ravel(),
    "repeat": lambda w: w.repeat(2, axis=0),
    "reshape": lambda w: w.reshape(4, 3),
    "round": lambda w: w.round(1),
    "sort": lambda w: w.sort(axis=1),
    "squeeze": lambda w: w[None].squeeze(0),
    "std": lambda w: w.std(),
    "sum": lambda w: w.sum(axis=0, keepdims=True),
    "swapaxes": lambda w: w.swapaxes(0, 1),
    "take": lambda w: w.take(jnp.array([1]), axis=0),
    "trace": lambda w: w.trace(),
    "transpose": lambda w: w.transpose(1, 0),
    "var": lambda w: w.var(axis=0),
    "view": lambda w: w.view(jnp.int32),
    "iteration": list,
    "reversed": lambda w: list(reversed(w)),
    "len": len,
    "unpacking": lambda w: sum((row for row in (*w,)), jnp.zeros(4)),
    "numpy": np.asarray,
    "float": lambda w: float(w[0, 0]),
    "int": lambda w: int(w[0, 0] * 10.0),
    "bool": lambda w: bool(w[0, 0] > 0),
    "complex": lambda w: complex(w[0, 0]),
    "format": lambda w: float(f"{w[0, 0]:.2f}"),
    "item": lambda w: w[0, 0].item(),
    "item at": lambda w: w.item(1),
    "tolist": lambda w: w.tolist(),
    "nbytes": lambda w: w.nbytes,
    "shape, ndim, size": lambda w: (w.shape, w.ndim, w.size),
    "block_until_ready": lambda w: w.block_until_ready(),
}


@pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS.keys())
@pytest.mark.parametrize("name", ["lora", "rows"])
def test_members_of_arrays_work_outside_the_transform(
    member: Callable[[Any], Any], name: str
) -> None:
    value, dense = CASES[name].both()
    close(tq.materialize(member(value)), member(dense))


NEEDS_NUMBERS = {
    *("numpy", "bool", "int", "float", "complex", "format", "item", "item at", "tolist"),
    "block_until_ready",
}
"""The members that no tracer of JAX's has."""


@pytest.mark.parametrize("name", sorted(MEMBERS.keys() - NEEDS_NUMBERS))
def test_members_of_arrays_work_under_jit_where_jax_s_do(name: str) -> None:
    value, dense = CASES["lora"].both()
    member = MEMBERS[name]
    close(
        jax.tree.map(jnp.zeros_like, jax.eval_shape(lambda w: tq.materialize(member(w)), value)),
        jax.tree.map(jnp.zeros_like, jax.eval_shape(member, dense)),
    )


@pytest.mark.parametrize("name", sorted(NEEDS_NUMBERS))
def test_members_that_need_numbers_are_refused_under_jit_by_jax_itself(name: str) -> None:
    with pytest.raises((TypeError, AttributeError)):
        jax.eval_shape(MEMBERS[name], CASES["lora"].both()[1])


def test_every_public_member_of_jax_arrays_exists_or_is_named_here() -> None:
    missing = {
        name
        for name in dir(jax.Array)
        if not name.startswith("_") and not hasattr(tq.ImplicitArray, name)
    }
    # Of buffers on devices, which an implicit array is not; the last two JAX refuses itself.
    assert missing == {
        "addressable_data",
        "addressable_shards",
        "committed",
        "copy_to_host_async",
        "device",
        "global_shards",
        "is_fully_addressable",
        "is_fully_replicated",
        "sharding",
        "to_device",
        "byteswap",
        "flat",
    }


def test_comparison_with_what_is_no_array_does_what_jax_does() -> None:
    value, dense = CASES["lora"].both()
    for other in ("s", None, object()):
        assert (value == other) is (dense == other) is False
        assert (value != other) is (dense != other) is True
        assert (other == value) is (other == dense) is False


def test_arithmetic_with_what_is_no_array_is_a_type_error() -> None:
    value, _ = CASES["lora"].both()
    for op in (operator.add, operator.mul, operator.matmul, operator.lt):
        with pytest.raises(TypeError):
            op(value, "s")
        with pytest.raises(TypeError):
            op("s", value)


def test_a_foreign_class_gets_its_reflected_operator() -> None:
    class Foreign:
        def __radd__(self, other: Any) -> str:
            return "foreign"

        def __rmatmul__(self, other: Any) -> str:
            return "foreign"

        def __eq__(self, other: object) -> Any:
            return "foreign"

        __hash__ = None  # type: ignore[assignment]  # as arrays

    value, _ = CASES["lora"].both()
    assert value + Foreign() == "foreign"
    assert value @ Foreign() == "foreign"
    assert (value == Foreign()) == "foreign"


def test_an_implicit_array_is_not_hashable_as_no_array_is() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(CASES["lora"].both()[0])


def test_the_truth_of_several_elements_is_an_error_as_of_any_array() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        bool(CASES["lora"].both()[0])


def test_len_and_iteration_of_a_scalar_are_type_errors() -> None:
    scalar = Plain(jnp.ones(()))
    with pytest.raises(TypeError, match="len"):
        len(scalar)
    with pytest.raises(TypeError):
        iter(scalar)


def test_a_scalar_integer_serves_as_an_index() -> None:
    assert [10, 20, 30][Plain(jnp.array(1))] == 20


def test_handlers_run_for_operators_outside() -> None:
    value, dense = CASES["scaled"].both()
    with tq.installed(TABLE):
        for result, expected in (
            (-value, -dense),
            (2.0 * value, 2.0 * dense),
            (value * 2.0, 2.0 * dense),
        ):
            assert type(result) is Scaled
            close(tq.materialize(result), expected)


def test_augmented_assignment_gives_the_sum() -> None:
    value, dense = CASES["lora"].both()
    value += 1.0
    close(tq.materialize(value), dense + 1.0)


def test_numpy_gets_the_numbers_in_the_dtype_it_asks_for() -> None:
    value, dense = CASES["lora"].both()
    np.testing.assert_allclose(np.asarray(value, np.float64), np.asarray(dense, np.float64), 1e-6)
    assert np.asarray(value, np.float64).dtype == np.float64


def test_a_numpy_function_works_on_the_numbers() -> None:
    value, dense = CASES["lora"].both()
    np.testing.assert_allclose(np.linalg.norm(np.asarray(value)), np.linalg.norm(dense), 1e-6)
