"""Annotations: what each form means, what is refused and what is said then, results and fields."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NewType, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import (
    AbstractDtype,
    Float,
    Float32,
    Int,
    PRNGKeyArray,
    PyTree,
    Scalar,
    Shaped,
)
from typing_extensions import TypeAliasType

from tests.resolver_world import CASES, LoraMatrix, P, Structured, Zeros, annotation, signature
from typedqax._annotations import (
    AnnotationError,
    event_rank,
    field_patterns,
    operand_patterns,
    result_patterns,
    signature_of,
)
from typedqax._declined import Declined
from typedqax._dims import parse_dims
from typedqax._dtypes import ANY_DTYPE, CATEGORIES, dtype_set
from typedqax._signature import ArrayPattern, Dense, Operand
from typedqax._value import ArrayValue, ImplicitValue

BOTH = frozenset({Dense, ImplicitValue})


class FloatOrInt8(AbstractDtype):
    dtypes = (re.compile("float.*"), "int8")


T = TypeVar("T")
Bound = TypeVar("Bound", bound=Structured)
Matrix = TypeAliasType("Matrix", Float[Array, "m n"])
Weights = NewType("Weights", Array)


# --- operands -------------------------------------------------------------------------------

MEANINGS = [
    pytest.param(Array, ArrayPattern(frozenset({Dense})), id="Array"),
    pytest.param(Zeros, ArrayPattern(frozenset({Zeros})), id="class"),
    pytest.param(ImplicitValue, ArrayPattern(frozenset({ImplicitValue})), id="ImplicitArray"),
    pytest.param(ArrayValue, ArrayPattern(BOTH), id="ArrayValue"),
    pytest.param(Any, ArrayPattern(BOTH), id="Any"),
    pytest.param(object, ArrayPattern(BOTH), id="object"),
    pytest.param(inspect.Parameter.empty, ArrayPattern(BOTH), id="unannotated"),
    pytest.param(ArrayLike, ArrayPattern(frozenset({Dense})), id="ArrayLike"),
    pytest.param(
        Float[ArrayLike, "n"],
        ArrayPattern(frozenset({Dense}), CATEGORIES["Float"], parse_dims("n")),
        id="Float[ArrayLike]",
    ),
    pytest.param(Scalar, ArrayPattern(frozenset({Dense}), dims=parse_dims("")), id="Scalar"),
    pytest.param(Shaped[Any, "n 3"], ArrayPattern(BOTH, dims=parse_dims("n 3")), id="Shaped[Any]"),
    pytest.param(
        Float[Float32[Array, "a"], "b"],
        ArrayPattern(frozenset({Dense}), dtype_set(["float32"]), parse_dims("b a")),
        id="nested",
    ),
    pytest.param(T, ArrayPattern(BOTH), id="type variable"),
    pytest.param(Bound, ArrayPattern(frozenset({Structured})), id="bound type variable"),
    pytest.param(
        Matrix,
        ArrayPattern(frozenset({Dense}), CATEGORIES["Float"], parse_dims("m n")),
        id="type alias",
    ),
    pytest.param(Weights, ArrayPattern(frozenset({Dense})), id="NewType"),
    pytest.param(
        Annotated[Zeros, P, "a remark"],
        ArrayPattern(frozenset({Zeros}), predicates=(P,)),
        id="Annotated",
    ),
]


@pytest.mark.parametrize(("written", "pattern"), MEANINGS)
def test_annotation_means(written: Any, pattern: ArrayPattern) -> None:
    assert operand_patterns(written) == (pattern,)


def test_union_is_its_members() -> None:
    assert operand_patterns(Float[Array, "n"] | Zeros) == (
        *operand_patterns(Float[Array, "n"]),
        *operand_patterns(Zeros),
    )
    assert len(operand_patterns(PRNGKeyArray)) == 3


def test_type_variable_with_constraints_is_one_choice_for_all_operands() -> None:
    patterns = operand_patterns(annotation("TC"))
    assert [p.classes for p in patterns] == [{Zeros}, {LoraMatrix}]
    assert all(p.choices for p in patterns)


def test_dtypes_by_regular_expression_are_the_known_ones_that_match() -> None:
    (pattern,) = operand_patterns(FloatOrInt8[Array, "..."])
    for dtype, inside in [("float16", True), ("int8", True), ("bfloat16", False), ("int4", False)]:
        assert pattern.accepts_kind(Operand(Dense, dtype, ())) is inside


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float6_e2m3fn"])
def test_floats_that_jaxtyping_leaves_out_of_float_are_in_shaped_alone(dtype: str) -> None:
    # A gap of jaxtyping 0.3: if this fails, it has been closed, and `_dtypes` should follow.
    operand = Operand(Dense, dtype, ())
    assert not operand_patterns(Float[Array, ""])[0].accepts_kind(operand)
    assert operand_patterns(Shaped[Array, ""])[0].accepts_kind(operand)


def test_array_type_of_a_jaxtyping_annotation_may_be_an_alias() -> None:
    alias = TypeAliasType("alias", Zeros)
    assert operand_patterns(alias) == operand_patterns(Zeros)


# --- what is refused ------------------------------------------------------------------------


class Shape(Protocol):
    shape: tuple[int, ...]


class Abstract(ABC):
    @abstractmethod
    def method(self) -> None: ...


class Holder:
    pass


GenericItem = TypeVar("GenericItem")

REFUSED = [
    pytest.param(Float[Array, "n"] | None, "never None", "leave None out", id="Optional"),
    pytest.param(None, "never None", "leave None out", id="None"),
    pytest.param(float, "float is never seen", "annotate Array", id="float"),
    pytest.param(np.ndarray, "ndarray is never seen", "annotate Array", id="ndarray"),
    pytest.param(np.generic, "generic is never seen", "annotate Array", id="np.generic"),
    pytest.param(np.float32, "float32 is never seen", "annotate Array", id="np.float32"),
    pytest.param(Zeros | float, "float is never seen", "annotate Array", id="scalar beside class"),
    pytest.param(Float[np.ndarray, "n"], "ndarray is never seen", "Array", id="Float[ndarray]"),
    pytest.param(jax.core.Tracer, "Tracer is never dispatched on", "annotate Array", id="Tracer"),
    pytest.param(Float[jax.core.Tracer, "n"], "Tracer", "annotate Array", id="Float[Tracer]"),
    pytest.param(Float[Array, "{x}"], "value-dependent", "name the axis", id="f-string"),
    pytest.param(Float[Array, "?n"], "PyTree", "write 'n'", id="?n"),
    pytest.param(PyTree[Array], "is a PyTree", "one array", id="PyTree[Array]"),
    pytest.param(PyTree, "is a PyTree", "one array", id="PyTree"),
    pytest.param(Literal[3], "Literal[3] is a value", "keyword-only param", id="Literal"),
    pytest.param(list[Array], "erased", "*args", id="list"),
    pytest.param(tuple[Array, ...], "erased", "*args", id="tuple"),
    pytest.param(Iterable[Array], "erased", "*args", id="Iterable"),
    pytest.param(str, "not a dispatch class", "ImplicitArray", id="str"),
    pytest.param(Holder, "not a dispatch class", "ImplicitArray", id="another class"),
    pytest.param(Shape, "Protocol", "ImplicitArray", id="Protocol"),
    pytest.param(Abstract, "abstract", "ImplicitArray", id="abstract class"),
    pytest.param("Zeros", "not resolved", "known where", id="unresolved string"),
    pytest.param(Float[Array, "m n )"], "')'", "separate axes by spaces", id="m n )"),
    pytest.param(Float[Array, "1m"], "'1m'", "separate axes by spaces", id="1m"),
]


@pytest.mark.parametrize(("written", "problem", "advice"), REFUSED)
def test_annotation_that_means_nothing_is_refused(written: Any, problem: str, advice: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        signature_of([("weights", written, inspect.Parameter.POSITIONAL_ONLY, False)])
    assert problem in caught.value.problem
    assert advice in caught.value.advice
    assert caught.value.parameter == "weights"
    assert len(str(caught.value)) < 600


def test_generic_class_is_erased_and_refused() -> None:
    from typing import Generic

    class Boxed(ImplicitValue, Generic[GenericItem]): ...

    with pytest.raises(AnnotationError, match="write Boxed"):
        operand_patterns(Boxed[int])
    assert operand_patterns(Boxed)[0].classes == {Boxed}


@pytest.mark.parametrize("case", CASES["ill_formed"], ids=lambda case: case["args"][-1])
def test_ill_formed_case_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(AnnotationError) as caught:
        signature(case["args"])
    assert case["error_contains"] in str(caught.value)


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        pytest.param(["Float[Array, 'n+1']"], "'n'", id="no plain axis"),
        pytest.param(["Float[Array, '#n']", "Float[Array, 'n+1']"], "'n'", id="broadcast only"),
        pytest.param(["Float[Array, 'n'] | Zeros", "Float[Array, 'n+1']"], "'n'", id="one member"),
        pytest.param(["Float[Array, '*n']", "Float[Array, 'n+1']"], "'n'", id="section"),
    ],
)
def test_expression_needs_names_with_an_axis_of_their_own(
    annotations: list[str], problem: str
) -> None:
    with pytest.raises(AnnotationError, match="not bound by a plain axis") as caught:
        signature(annotations)
    assert problem in caught.value.problem


def test_name_bound_in_every_member_of_a_union_may_be_used() -> None:
    found = signature(["Float[Array, 'n'] | Float[Zeros, 'n 3']", "Float[Array, 'n+1']"])
    assert len(found.conjunctions(2)) == 2


def test_operand_with_a_default_binds_names_for_itself_alone() -> None:
    assert signature(["Zeros", "Float[Array, 'n n+1']"], min_arity=1).accepts_arity(1)
    with pytest.raises(AnnotationError, match="not bound"):
        signature(["Float[Array, 'n']", "Float[Array, 'n+1']"], min_arity=0)


# --- results --------------------------------------------------------------------------------


def test_result_may_decline_if_it_says_so() -> None:
    for declined in (Declined, type(NotImplemented)):
        found = result_patterns(Float[Array, "*b n"] | declined)
        assert found.may_decline
        assert found.single
        assert found.names == {"*b", "n"}
    assert not result_patterns(Float[Array, "n"]).may_decline


def test_array_in_a_result_is_dense_or_implicit() -> None:
    found = result_patterns(Array)
    assert found.items is not None
    assert found.items[0][0].classes == BOTH


def test_result_may_be_several_arrays() -> None:
    pair = result_patterns(tuple[Zeros, Float[Array, "n"]])
    assert pair.items is not None
    assert (pair.single, pair.repeated, len(pair.items)) == (False, False, 2)
    many = result_patterns(list[Float[Array, "n"]] | Declined)
    assert many.items is not None
    assert (many.single, many.repeated, many.may_decline) == (False, True, True)
    assert result_patterns(tuple[Array, ...]).repeated


def test_result_without_annotation_says_nothing() -> None:
    for written in (inspect.Parameter.empty, Any, object):
        assert result_patterns(written).items is None


def test_result_that_is_no_array_is_refused() -> None:
    for written in (str, None, dict[str, Array]):
        with pytest.raises(AnnotationError, match="the result"):
            result_patterns(written)


# --- fields ---------------------------------------------------------------------------------


def test_array_in_a_field_is_dense_or_implicit() -> None:
    for written in (Array, ArrayValue, Array | None):
        patterns = field_patterns(written)
        assert patterns is not None
        assert [p.classes for p in patterns] == [BOTH]


@pytest.mark.parametrize("written", [int, str, tuple[int, ...], jnp.dtype, int | None, Any])
def test_field_without_arrays_is_no_array_field(written: Any) -> None:
    assert field_patterns(written) is None


@pytest.mark.parametrize(
    ("written", "rank"),
    [
        pytest.param(Float[Array, "m n"], 2, id="two axes"),
        pytest.param(Float[Array, ""], 0, id="scalar"),
        pytest.param(Float[Array, "m n"] | Int[Array, "k l"], 2, id="union of one rank"),
        pytest.param(Float[Array, "m"] | Int[Array, "k l"], None, id="union of two ranks"),
        pytest.param(Float[Array, "*b n"], None, id="section"),
        pytest.param(Array, None, id="no shape"),
    ],
)
def test_event_rank_is_how_many_axes_the_field_names(written: Any, rank: int | None) -> None:
    patterns = field_patterns(written)
    assert patterns is not None
    assert event_rank(patterns) == rank


def test_any_dtype_is_not_looked_at() -> None:
    assert operand_patterns(Shaped[Array, "..."])[0].dtypes == ANY_DTYPE
