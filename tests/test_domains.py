"""The calls that a primitive's handlers are compared on are the calls that JAX accepts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.handler_kit import Zero
from typedqax import _domains, _jax, ops
from typedqax._domains import COMMUTATIVE, primitive_domain
from typedqax._signature import Dense, Operand, Signature
from typedqax._value import ImplicitValue

SHAPES = [(), (1,), (2,), (3,), (1, 3), (2, 1), (2, 3)]
DTYPES = ["float32", "int32", "uint8", "bool", "complex64"]


@pytest.fixture(autouse=True, scope="module")
def _whole_tracebacks() -> Iterator[None]:
    with _jax.whole_tracebacks():  # of thousands of calls that JAX refuses
        yield


PARAMS: dict[str, dict[str, Any]] = {
    "concatenate": {"dimension": 0},
    "pad": {"padding_config": ((0, 0, 0),)},
    "dynamic_slice": {"slice_sizes": (1,)},
    "dynamic_update_slice": {},
}


def ranked(name: str, rank: int) -> dict[str, Any]:
    """Params with which the primitive takes a first operand of this rank."""
    if name == "pad":
        return {"padding_config": ((0, 0, 0),) * rank}
    if name == "dynamic_slice":
        return {"slice_sizes": (1,) * rank}
    return PARAMS.get(name, {})


def accepted_by_jax(name: str, operands: tuple[Operand, ...]) -> bool:
    op = ops.find(name)
    assert op is not None
    structs = [jax.ShapeDtypeStruct(each.shape, jnp.dtype(each.dtype)) for each in operands]
    try:
        op.out_aval(*structs, **ranked(name, len(operands[0].shape)))
    except (TypeError, ValueError, AssertionError):
        return False
    # JAX 0.10.2 counts the indices of dynamic_slice only when it lowers the call.
    return name != "dynamic_slice" or len(operands) == 1 + len(operands[0].shape)


BINARY = sorted(
    name for name in _domains._SPECIAL if ops.find(name) and primitive_domain(name, 2).scalars
)


def test_many_elementwise_primitives_have_a_domain_of_their_own() -> None:
    assert len(BINARY) > 20
    assert {"add", "sub", "mul", "and", "eq", "max"} <= set(BINARY)


@pytest.mark.parametrize("name", [*BINARY, "add_any"])
def test_the_domain_of_two_operands_holds_all_that_jax_accepts(name: str) -> None:
    calls = primitive_domain(name, 2)
    seen = 0
    for shapes in itertools.product(SHAPES, repeat=2):
        for dtypes in itertools.product(DTYPES, repeat=2):
            operands = tuple(Operand(Zero, d, s) for d, s in zip(dtypes, shapes, strict=True))
            if accepted_by_jax(name, operands):
                seen += 1
                assert calls.contains(operands), operands
    assert seen


@pytest.mark.parametrize("name", [*BINARY, "add_any"])
def test_shapes_in_the_domain_are_shapes_that_jax_accepts(name: str) -> None:
    calls = primitive_domain(name, 2)
    dtype = next(
        each
        for each in DTYPES
        if accepted_by_jax(name, (Operand(Zero, each, (2,)), Operand(Zero, each, (2,))))
    )
    for shapes in itertools.product(SHAPES, repeat=2):
        operands = tuple(Operand(Zero, dtype, shape) for shape in shapes)
        assert calls.contains(operands) == accepted_by_jax(name, operands), operands


@pytest.mark.parametrize("name", ["select_n", "clamp"])
def test_the_domain_of_three_operands_holds_all_that_jax_accepts(name: str) -> None:
    calls = primitive_domain(name, None)
    shapes, dtypes = [(), (1,), (2,), (2, 3)], ["float32", "int32", "bool"]
    seen = 0
    for chosen in itertools.product(itertools.product(dtypes, shapes), repeat=3):
        operands = tuple(Operand(Zero, dtype, shape) for dtype, shape in chosen)
        if accepted_by_jax(name, operands):
            seen += 1
            assert calls.contains(operands), operands
    assert seen


@pytest.mark.parametrize("name", ["concatenate", "pad", "dynamic_slice", "dynamic_update_slice"])
def test_the_domain_of_a_structural_primitive_holds_all_that_jax_accepts(name: str) -> None:
    calls = primitive_domain(name, None)
    shapes, dtypes = [(), (1,), (2,), (2, 2)], ["float32", "int32"]
    seen = 0
    for arity in (1, 2, 3):
        for chosen in itertools.product(itertools.product(dtypes, shapes), repeat=arity):
            operands = tuple(Operand(Zero, dtype, shape) for dtype, shape in chosen)
            if accepted_by_jax(name, operands):
                seen += 1
                assert calls.contains(operands), operands
    assert seen


@pytest.mark.parametrize("name", sorted(COMMUTATIVE))
def test_the_operands_of_a_commutative_primitive_may_be_swapped(name: str) -> None:
    op = ops.find(name)
    assert op is not None
    x, y = (jnp.array(v, bool) for v in ([True, True, False, False], [True, False, True, False]))
    if name not in ("and", "or", "xor", "eq", "ne"):
        x, y = x.astype("int32") * 3, y.astype("int32") * 5
    there, back = op.bind(x, y), op.bind(y, x)
    assert jnp.array_equal(jnp.asarray(there), jnp.asarray(back))


def signature_of_shapes(*texts: str) -> Signature:
    return _domains._fixed([texts])


def test_an_example_is_a_call_that_jax_accepts_where_one_rank_is_asked_for() -> None:
    calls = primitive_domain("sub", 2)
    matrix, vector = signature_of_shapes("m n", "..."), signature_of_shapes("...", "k")
    assert calls.shared(matrix, vector) is None
    assert calls.shared(matrix, signature_of_shapes("...", "")) is not None
    assert calls.shared(matrix, signature_of_shapes("...", "k l")) is not None
    assert calls.outside(signature_of_shapes("m n", "k l"), signature_of_shapes("m n", "m n"))
    assert calls.outside(signature_of_shapes("m n", "*b"), signature_of_shapes("m n", "#m #n"))


def test_every_call_has_an_implicit_operand() -> None:
    dense = Signature(
        tuple(
            type(form)(
                tuple(
                    type(p)(p.name, tuple(_dense(a) for a in p.alternatives))
                    for p in form.parameters
                )
            )
            for form in signature_of_shapes("...", "...").forms
        )
    )
    assert primitive_domain("dot_general", 2).reaching(dense) is None
    found = primitive_domain("dot_general", 2).reaching(signature_of_shapes("n", "n"))
    assert found is not None
    assert any(issubclass(each.cls, ImplicitValue) for each in found)


def _dense(pattern: Any) -> Any:
    return type(pattern)(frozenset({Dense}), pattern.dtypes, pattern.dims)


def test_a_number_of_operands_that_a_primitive_has_not_is_not_in_its_domain() -> None:
    assert primitive_domain("neg", 1).reaching(signature_of_shapes("...", "...")) is None
    assert primitive_domain("sort", None).reaching(signature_of_shapes("...", "...")) is not None
