"""A handler says by its own signature which calls it takes; one that cannot say is refused."""

# What these handlers would compute plays no part here.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Iterator
from types import NotImplementedType
from typing import Any

import jax
import pytest
from jax import Array
from jaxtyping import Float

from tests.handler_kit import CONCATENATE, DOT, EXP, MUL, NEG, SUB, TRANSPOSE, Lora, Zero
from typedqax._declined import Declined
from typedqax._errors import SignatureError
from typedqax._handler import Handler
from typedqax._rule import Rule, Target
from typedqax._signature import Dense
from typedqax._value import ImplicitValue


def handler(function: object, *, takes_first: bool = False) -> Handler:
    return Handler.of(function, takes_first=takes_first)


def declare(function: object, *targets: Target, **how: Any) -> Rule:
    return Rule.declare(function, targets or (MUL,), **how)


def refused(function: object, *targets: Target, **how: Any) -> str:
    with pytest.raises(SignatureError) as caught:
        declare(function, *targets, **how)
    return str(caught.value)


# --- operands -------------------------------------------------------------------------------


def test_positional_parameters_are_operands_and_the_rest_are_params() -> None:
    def matmul(
        x: Array, w: Lora, *, dimension_numbers: object, precision: object = None, **params: Any
    ) -> Array: ...

    read = handler(matmul)
    assert read.operands == ("x", "w")
    assert read.arities == (2, 2)
    assert read.params.required == {"dimension_numbers"}
    assert read.params.optional == {"precision"}
    assert read.params.rest == "passed"


def test_a_default_is_one_more_arity() -> None:
    def handle(x: Lora, y: Array = None) -> Array: ...  # type: ignore[assignment]  # as users do

    assert handler(handle).arities == (1, 2)


def test_star_operands_are_any_number() -> None:
    def handle(*xs: Float[Lora, "n"], dimension: int) -> Lora: ...

    assert handler(handle).arities == (0, None)
    assert handler(handle).operands == ("*xs",)


def test_what_is_given_first_is_not_an_operand() -> None:
    def handle(op: NotKnownAtRunTime, x: Lora, /) -> Lora: ...  # type: ignore[name-defined]  # known to no one

    assert handler(handle, takes_first=True).operands == ("x",)


def test_a_variadic_handler_is_given_the_op_among_its_operands() -> None:
    def handle(*everything: Any, **params: Any) -> Any: ...

    assert handler(handle, takes_first=True).operands == ("*everything",)


@pytest.mark.parametrize(
    ("returned", "declines"),
    [
        pytest.param(Array, "never", id="array"),
        pytest.param(Array | Declined, "may", id="Declined"),
        pytest.param(Array | NotImplementedType, "may", id="NotImplementedType"),
        pytest.param(Any, "unknown", id="Any"),
        pytest.param(None, "unknown", id="nothing"),
    ],
)
def test_the_return_annotation_says_whether_a_handler_may_decline(
    returned: object, declines: str
) -> None:
    def handle(x: Lora): ...  # type: ignore[no-untyped-def]  # annotated below

    handle.__annotations__ = {"x": Lora} | ({} if returned is None else {"return": returned})
    assert handler(handle).declines == declines
    assert handler(handle).total is (declines != "may")


def test_facts_show_the_signature_as_it_was_written() -> None:
    def handle(x: Float[Array, "*b m"], w: Float[Lora, "m n"]) -> Array: ...

    facts = handler(handle).facts()
    assert facts.signature == 'x: Float[Array, "*b m"], w: Float[Lora, "m n"]'
    assert facts.place == f"{__file__}:{handle.__code__.co_firstlineno}"


# --- what can be a handler ------------------------------------------------------------------


def test_static_methods_partials_jitted_functions_and_callable_objects_are_handlers() -> None:
    class Rules:
        @staticmethod
        def scale(x: Lora, y: Array) -> Lora: ...

        def __call__(self, x: Lora, y: Array) -> Lora: ...

    def scaled(factor: float, x: Lora, y: Array) -> Lora: ...

    @jax.jit
    def compiled(x: Lora, y: Array) -> Lora: ...

    found = [
        Rules.__dict__["scale"],
        Rules.scale,
        Rules(),
        functools.partial(scaled, 2.0),
        compiled,
    ]
    for each in found:
        assert handler(each).operands == ("x", "y")
        assert callable(handler(each).function)
    assert handler(Rules()).name == "Rules"


def test_what_a_partial_binds_by_keyword_is_no_param() -> None:
    def scaled(x: Lora, *, by: float, accuracy: object = None) -> Lora: ...

    assert handler(functools.partial(scaled, by=2.0)).params.named == {"accuracy"}


class Methods:
    def scale(self, x: Lora) -> Lora: ...

    @classmethod
    def shared(cls, x: Lora) -> Lora: ...


async def later(x: Lora) -> Lora: ...


def generated(x: Lora) -> Iterator[Lora]:
    yield x


@pytest.mark.parametrize(
    ("function", "part"),
    [
        pytest.param(Methods().scale, "a method", id="bound method"),
        pytest.param(Methods.scale, "it is a method", id="unbound method"),
        pytest.param(Methods.__dict__["shared"], "a method", id="classmethod object"),
        pytest.param(3, "of type int", id="not callable"),
        pytest.param(Lora, "a class", id="class"),
        pytest.param(later, "coroutine", id="coroutine"),
        pytest.param(generated, "generator", id="generator"),
    ],
)
def test_what_is_no_plain_function_is_refused(function: object, part: str) -> None:
    with pytest.raises(SignatureError, match=part):
        handler(function)


# --- type hints -----------------------------------------------------------------------------


def test_a_local_class_is_found_while_its_function_runs() -> None:
    class Local(ImplicitValue): ...

    def handle(x: Local) -> Local: ...

    assert handler(handle).signature.classes == {Local}


def test_a_local_class_hides_a_global_one_of_its_name() -> None:
    class Zero(ImplicitValue): ...

    def handle(x: Zero) -> Zero: ...

    assert handler(handle).signature.classes == {Zero}


def test_a_local_class_is_found_from_a_function_within() -> None:
    class Local(ImplicitValue): ...

    def declare_it() -> Handler:
        def handle(x: Local) -> Local: ...

        return handler(handle)

    assert declare_it().signature.classes == {Local}


def test_a_handler_in_a_class_body_sees_the_names_of_that_body() -> None:
    class Outer:
        class Inner(ImplicitValue): ...

        @staticmethod
        def handle(x: Inner) -> Inner: ...

        read = handler(handle)

    assert Outer.read.signature.classes == {Outer.Inner}


def factory() -> Callable[..., Any]:
    class Gone(ImplicitValue): ...

    def handle(x: Gone) -> Array: ...

    return handle


def test_an_annotation_that_has_no_value_is_refused_with_its_name_and_line() -> None:
    function = factory()
    text = refused(function, NEG)
    assert "the annotation of `x`, 'Gone', has no value" in text
    assert f"{__file__}:{function.__code__.co_firstlineno}" in text
    assert "declare the handler there" in text


def test_a_name_that_is_only_known_to_type_checkers_is_refused() -> None:
    def handle(x: Misspelt) -> Array: ...  # type: ignore[name-defined]  # that is the mistake

    assert "NameError: name 'Misspelt' is not defined" in refused(handle, NEG)


def test_forward_references_inside_an_annotation_are_resolved() -> None:
    source = """
        from typing import Union
        from jax import Array
        from tests.handler_kit import Zero
        def handle(x: Union["Zero", Array]) -> Array: ...
        """
    namespace: dict[str, Any] = {"__name__": "somewhere"}
    exec(textwrap.dedent(source), namespace)  # without the future import
    assert handler(namespace["handle"]).signature.classes == {Zero, Dense}


def test_an_axis_that_only_the_result_names_is_refused() -> None:
    def handle(x: Float[Lora, "m n"]) -> Float[Array, "m k"]: ...

    assert "the axis 'k' of the result" in refused(handle, NEG)


def test_an_axis_of_the_result_that_some_alternative_does_not_bind_is_refused() -> None:
    def handle(x: Float[Lora, "m n"] | Float[Zero, "n"]) -> Float[Array, "m"]: ...

    assert "bind it in every alternative" in refused(handle, NEG)


@pytest.mark.parametrize("axes", ["m _", "...", "m n", "n m", "m+1 n"])
def test_the_result_may_name_what_operands_bind(axes: str) -> None:
    def handle(x: Float[Lora, "m n"]): ...  # type: ignore[no-untyped-def]  # annotated below

    handle.__annotations__ |= {"return": Float[Array, axes]}
    assert declare(handle, NEG).handler.declines == "never"


def test_a_broadcast_axis_is_bound() -> None:
    def handle(x: Float[Lora, "#*b n"], y: Float[Array, "*b #n"]) -> Float[Array, "*b n"]: ...

    assert declare(handle, MUL).handler.result.names == {"*b", "n"}


# --- arity and params against the primitive -------------------------------------------------


def test_too_few_operands_are_refused() -> None:
    def handle(x: Lora, **params: Any) -> Lora: ...

    assert "it takes 1 operand, but `mul` has 2" in refused(handle, MUL)


def test_a_param_before_the_star_is_told_to_go_after_it() -> None:
    def handle(x: Lora, permutation: object) -> Lora: ...

    assert "params come after a `*`: `permutation`" in refused(handle, TRANSPOSE)


def test_every_target_of_a_group_must_fit() -> None:
    def handle(x: Lora, y: Array, **params: Any) -> Lora: ...

    assert "`neg` has 1" in refused(handle, MUL, NEG)


def test_a_default_that_no_target_ever_fills_is_refused() -> None:
    def handle(x: Lora, y: Array, z: Array = None, **params: Any) -> Lora: ...  # type: ignore[assignment]  # as users do

    assert "its operand `z` has a default, but is never given" in refused(handle, MUL)


def test_a_default_that_some_target_fills_is_fine() -> None:
    def handle(x: Lora, y: Array = None, **params: Any) -> Lora: ...  # type: ignore[assignment]  # as users do

    assert declare(handle, NEG, MUL).handler.arities == (1, 2)


def test_a_required_param_that_the_primitive_has_not_is_refused() -> None:
    def handle(x: Lora, *, permutations: object) -> Lora: ...

    text = refused(handle, TRANSPOSE)
    assert "`transpose` has no param `permutations` on this JAX (it has: permutation)" in text


def test_an_optional_param_that_the_primitive_has_not_is_accepted() -> None:
    def handle(x: Lora, *, permutation: object, new_in_jax: object = None) -> Lora: ...

    assert declare(handle, TRANSPOSE).handler.params.optional == {"new_in_jax"}


@pytest.mark.parametrize(
    ("target", "name"),
    [
        pytest.param(DOT, "dimension_numbers", id="dot_general"),
        pytest.param(TRANSPOSE, "permutation", id="transpose"),
        pytest.param(Target("slice", None, ("start_indices",), 1), "start_indices", id="slice"),
        pytest.param(
            Target("convert_element_type", None, ("new_dtype",), 1), "new_dtype", id="convert"
        ),
        pytest.param(Target("integer_pow", None, ("y",), 1), "y", id="integer_pow"),
    ],
)
def test_a_param_that_decides_the_numbers_may_not_be_ignored(target: Target, name: str) -> None:
    def unary(x: Lora, **_: Any) -> Array: ...

    def binary(x: Array, y: Lora, **_ignored: Any) -> Array: ...

    text = refused(binary if target.arity == 2 else unary, target)
    assert f"it ignores `{name}` of `{target.name}`" in text
    assert "take **params and pass them on" in text


def test_a_param_that_decides_no_numbers_may_be_ignored() -> None:
    def handle(x: Lora, **_: Any) -> Array: ...

    assert declare(handle, EXP).handler.params.rest == "ignored"


def test_a_deciding_param_that_is_named_may_stand_beside_ignored_ones() -> None:
    def handle(x: Array, y: Lora, *, dimension_numbers: object, **_: Any) -> Array: ...

    assert declare(handle, DOT).handler.params.rest == "ignored"


def test_an_operand_named_as_a_param_must_be_positional_only() -> None:
    def handle(permutation: Lora, **params: Any) -> Array: ...

    def fine(permutation: Lora, /, **params: Any) -> Array: ...

    assert "put a `/` after the operands" in refused(handle, TRANSPOSE)
    assert declare(fine, TRANSPOSE).handler.operands == ("permutation",)


# --- reach ----------------------------------------------------------------------------------


def test_a_handler_without_any_implicit_operand_is_refused() -> None:
    def handle(x: Array, y: Float[Array, "n"], **params: Any) -> Array: ...

    text = refused(handle, MUL)
    assert "no call of `mul` can reach it" in text
    assert "`ImplicitArray` (any implicit)" in text


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(Float[Lora, "m n"], Float[Array, "n"], id="ranks that differ"),
        pytest.param(Float[Lora, "3"], Float[Array, "4"], id="sizes that differ"),
    ],
)
def test_operands_that_the_primitive_never_gets_are_refused(first: object, second: object) -> None:
    def handle(x: Any, y: Any, **params: Any) -> Array: ...

    handle.__annotations__ = {"x": first, "y": second, "return": Array}
    assert "no call of `sub` can reach it" in refused(handle, SUB)
    assert declare(handle, DOT).targets == (DOT,)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(Float[Lora, "m n"], Float[Array, ""], id="scalar"),
        pytest.param(Float[Lora, "m n"], Float[Array, "m 1"], id="size one"),
        pytest.param(Float[Lora, "*b n"], Float[Array, "*b 1"], id="size one at the end"),
    ],
)
def test_scalars_and_axes_of_size_one_reach_elementwise_handlers(
    first: object, second: object
) -> None:
    def handle(x: Any, y: Any, **params: Any) -> Array: ...

    handle.__annotations__ = {"x": first, "y": second, "return": Array}
    assert declare(handle, SUB).targets == (SUB,)


def test_a_group_needs_one_primitive_that_reaches_the_handler() -> None:
    def handle(x: Float[Lora, "m n"], y: Float[Array, "n"], **_: Any) -> Array: ...

    def fits(x: Float[Lora, "m n"], y: Float[Array, "n"], **params: Any) -> Array: ...

    assert "no call of `mul`, `sub` can reach it" in refused(handle, MUL, SUB)
    assert declare(fits, MUL, DOT).targets == (MUL, DOT)


def test_commutative_is_for_primitives_whose_operands_may_be_swapped() -> None:
    def handle(x: Lora, y: Any, **params: Any) -> Array: ...

    assert "the operands of `sub` have an order" in refused(handle, SUB, commutative=True)
    assert declare(handle, MUL, commutative=True).commutative


def test_commutative_is_for_two_operands() -> None:
    def handle(*xs: Lora, **params: Any) -> Array: ...

    assert "a handler of two operands" in refused(handle, MUL, commutative=True)


def test_all_problems_of_a_handler_are_told_at_once() -> None:
    def handle(x: Lora, **_: Any) -> Lora: ...

    text = refused(handle, DOT, commutative=True)
    assert "it takes 1 operand" in text
    assert "it ignores `dimension_numbers`" in text
    assert "have an order" in text


# --- params of a call -----------------------------------------------------------------------


def test_a_param_that_is_none_is_dropped_and_any_other_makes_the_handler_decline() -> None:
    def handle(x: Lora, *, axes: object) -> Array: ...

    read = handler(handle)
    assert read.accepted({"axes": (0,), "out_sharding": None}) == {"axes": (0,)}
    assert read.accepted({"axes": (0,), "out_sharding": 1}) == (
        "it does not take the param 'out_sharding', which is not None in this call"
    )


def test_a_handler_that_takes_the_rest_gets_all_of_it() -> None:
    def handle(x: Lora, **params: Any) -> Array: ...

    assert handler(handle).accepted({"axes": (0,), "out_sharding": None}) == {
        "axes": (0,),
        "out_sharding": None,
    }


def test_a_call_without_a_param_that_the_handler_needs_is_declined() -> None:
    def handle(x: Lora, *, axes: object, **params: Any) -> Array: ...

    assert "it needs the param 'axes'" in str(handler(handle).accepted({}))


def test_an_error_text_stays_short() -> None:
    names = " ".join(f"axis{place}" for place in range(2_000))

    def handle(x: Any, y: Any, **params: Any) -> Array: ...

    handle.__annotations__ = {"x": Float[Array, names], "y": Float[Array, names]}
    assert len(refused(handle, CONCATENATE, MUL)) < 4_000


def test_concatenate_takes_variadic_handlers() -> None:
    def handle(*xs: Float[Lora, "_ n"], dimension: int) -> Lora: ...

    assert declare(handle, CONCATENATE).handler.arities == (0, None)
