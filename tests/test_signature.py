"""Signatures: matching, bindings, who bound what, reasons, and agreement with jaxtyping."""

from __future__ import annotations

import inspect
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jaxtyping import Float, Float32, Int, Num, Shaped, jaxtyped

from tests import brute_force
from tests.resolver_world import Eye, LoraMatrix, Zeros, operands, signature
from typedqax import _signature
from typedqax._annotations import signature_of
from typedqax._dims import AnnotationError, match_shapes, parse_dims
from typedqax._dtypes import CATEGORIES, dtype_set, short_name
from typedqax._signature import AxisOrigin, Dense, Operand, Signature
from typedqax._value import ImplicitValue

# --- operands -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        pytest.param(Operand(LoraMatrix, "float32", (512, 512)), "LoraMatrix f32[512,512]"),
        pytest.param(Operand(Dense, "float32", (3, 4)), "Array f32[3,4]"),
        pytest.param(Operand(Dense, "bfloat16", ()), "Array bf16[]"),
        pytest.param(Operand(ImplicitValue, "bool", (2,)), "ImplicitArray bool[2]"),
        pytest.param(Operand(Zeros, "float8_e4m3fn", (1,)), "Zeros f8_e4m3fn[1]"),
        pytest.param(Operand(Dense, "key<fry>", ()), "Array key<fry>[]"),
        pytest.param(Operand(Dense, "float0", ()), "Array float0[]"),
    ],
    ids=str,
)
def test_operand_prints_as_jax_prints_arrays(operand: Operand, text: str) -> None:
    assert str(operand) == text


@pytest.mark.parametrize(
    "dtype",
    "float32 int8 uint16 bfloat16 complex64 bool float8_e4m3fn int4 float4_e2m1fn".split(),  # noqa: SIM905  # a list of names
)
def test_short_dtype_names_are_those_of_jax(dtype: str) -> None:
    aval = jax.core.ShapedArray((), jnp.dtype(dtype))
    assert aval.str_short(short_dtypes=True) == f"{short_name(dtype)}[]"


# --- matching -------------------------------------------------------------------------------

MATCHES = [
    # annotations, point, bindings (None: no match)
    pytest.param(["Float[Array, 'n n']"], [["Dense", "float32", [3, 3]]], {"n": 3}, id="equal"),
    pytest.param(["Float[Array, 'n n']"], [["Dense", "float32", [3, 4]]], None, id="unequal"),
    pytest.param(
        ["Float[Array, '*b m']", "Float[LoraMatrix, 'm n']"],
        [["Dense", "float32", [2, 5, 3]], ["LoraMatrix", "float32", [3, 4]]],
        {"*b": (2, 5), "m": 3, "n": 4},
        id="names shared by operands",
    ),
    pytest.param(
        ["Float[Array, 'b']", "Float[Array, '*b']"],
        [["Dense", "float32", [2]], ["Dense", "float32", [3, 4]]],
        {"b": 2, "*b": (3, 4)},
        id="b and *b are two names",
    ),
    pytest.param(
        ["Float[Array, '#n']", "Float[Array, '#n']"],
        [["Dense", "float32", [1]], ["Dense", "float32", [4]]],
        {"n": 4},
        id="broadcast name is the larger",
    ),
    pytest.param(
        ["Float[Array, '#n']", "Float[Array, '#n']"],
        [["Dense", "float32", [2]], ["Dense", "float32", [4]]],
        None,
        id="not broadcastable",
    ),
    pytest.param(["Float[Array, '#n']"], [["Dense", "float32", [1]]], {"n": 1}, id="only ever 1"),
    pytest.param(
        ["Float[Array, 'n+1']", "Float[Array, 'n']"],
        [["Dense", "float32", [4]], ["Dense", "float32", [3]]],
        {"n": 3},
        id="expression before its name",
    ),
    pytest.param(
        ["Float[Array, 'n']", "Float[Array, 'n-1']"],
        [["Dense", "float32", [0]], ["Dense", "float32", [0]]],
        None,
        id="no size is negative",
    ),
    pytest.param(
        ["Float[Array, 'n']", "Float[Array, 'n%n']"],
        [["Dense", "float32", [0]], ["Dense", "float32", [0]]],
        None,
        id="division by zero matches nothing",
    ),
    pytest.param(
        ["Float[Array, '#*b']", "Float[Array, '#*b 3']"],
        [["Dense", "float32", [2, 1]], ["Dense", "float32", [5, 3]]],
        {"*b": (2, 5)},
        id="broadcast sections",
    ),
    pytest.param(
        ["Float[Array, '#*b']", "Float[Array, '*b']"],
        [["Dense", "float32", [2, 4]], ["Dense", "float32", [4]]],
        None,
        id="the plain section is the target",
    ),
    pytest.param(
        ["Float[Array, 'n _'] | Float[Array, '_ n']", "Float[Array, 'n']"],
        [["Dense", "float32", [2, 3]], ["Dense", "float32", [3]]],
        {"n": 3},
        id="unions backtrack",
    ),
    pytest.param(
        ["TC", "TC"], [["Zeros", "float32", []], ["LoraMatrix", "float32", []]], None, id="one T"
    ),
    pytest.param(
        ["TC", "TC"], [["Zeros", "float32", []], ["Zeros", "int8", [2]]], {}, id="the same T"
    ),
    pytest.param(["Key[Array, '']"], [["Dense", "key<fry>", []]], {}, id="key"),
    pytest.param(["Zeros"], [["Dense", "float32", []]], None, id="dense is not implicit"),
    pytest.param(["Array"], [["Zeros", "float32", []]], None, id="implicit is not dense"),
    pytest.param(["Any"], [["Zeros", "float32", [7]]], {}, id="anything"),
    pytest.param(["Float[Array, 'n']"], [], None, id="too few"),
    pytest.param(["Array"], [["Dense", "float32", []]] * 2, None, id="too many"),
]


@pytest.mark.parametrize(("annotations", "point", "bindings"), MATCHES)
def test_match_binds_every_name(
    annotations: list[str], point: list[Any], bindings: dict[str, Any] | None
) -> None:
    found = signature(annotations).match(operands(point))
    assert (None if found is None else found.bindings) == bindings


def test_further_operands_belong_to_the_star_parameter() -> None:
    stack = signature(["Zeros"], vararg="Float[Array, 'n']")
    assert stack.match(operands([["Zeros", "int8", []]]))
    same: list[list[Any]] = [["Zeros", "int8", []], *[["Dense", "float32", [3]]] * 3]
    found = stack.match(operands(same))
    assert found is not None
    assert found.bindings == {"n": 3}
    different: list[list[Any]]
    different = [["Zeros", "int8", []], ["Dense", "float32", [3]], ["Dense", "float32", [4]]]
    assert stack.match(operands(different)) is None


def test_many_operands_of_a_union_do_not_take_long() -> None:
    stack = signature([], vararg="Float[Array, 'n'] | Float[Zeros, 'n'] | Int[Eye, 'n']")
    point: list[list[Any]] = [
        ["Dense", "float32", [3]],
        ["Zeros", "float32", [3]],
        ["Eye", "int8", [3]],
    ] * 20
    assert stack.match(operands(point))
    assert stack.match(operands([*point, ["Eye", "float32", [3]]])) is None


def test_operand_with_a_default_may_be_absent() -> None:
    clamp = signature(["Zeros", "Float[Array, 'n']"], min_arity=1)
    assert clamp.match(operands([["Zeros", "int8", []]]))
    assert clamp.match(operands([["Zeros", "int8", []], ["Dense", "float32", [3]]]))


def test_match_says_which_operand_and_axis_bound_each_name() -> None:
    found = signature(["Float[Array, '#k *b m']", "Float[LoraMatrix, 'm k']"]).match(
        operands([["Dense", "float32", [1, 2, 5, 3]], ["LoraMatrix", "float32", [3, 4]]])
    )
    assert found is not None
    assert found.bindings == {"*b": (2, 5), "m": 3, "k": 4}
    assert found.origins == {
        "*b": AxisOrigin(0, 1),
        "m": AxisOrigin(0, 3),
        "k": AxisOrigin(1, 1),  # the plain axis, not the broadcast one before it
    }


def test_commutative_match_says_that_operands_are_swapped() -> None:
    both = signature(["Zeros", "Float[Array, 'n']"], commutative=True)
    straight = both.match(operands([["Zeros", "int8", []], ["Dense", "float32", [3]]]))
    swapped = both.match(operands([["Dense", "float32", [3]], ["Zeros", "int8", []]]))
    assert straight is not None
    assert swapped is not None
    assert (straight.swapped, swapped.swapped) == (False, True)
    assert swapped.bindings == {"n": 3}


def test_predicates_are_asked_about_values_when_there_are_any() -> None:
    from beartype.vale import Is

    positive = Is[lambda value: value > 0]
    checked = signature_of([("x", _annotated(positive), inspect.Parameter.POSITIONAL_ONLY, False)])
    operand = [Operand(Dense, "float32", ())]
    assert checked.has_predicates
    assert checked.match(operand)
    assert checked.match(operand, [1.0])
    assert checked.match(operand, [-1.0]) is None


def _annotated(predicate: Any) -> Any:
    from typing import Annotated

    return Annotated[Array, predicate]


def test_symbolic_sizes_of_jax_export_match_names() -> None:
    n, m = jax.export.symbolic_shape("n, m")
    point = [Operand(Dense, "float32", (n, m)), Operand(Zeros, "float32", (m, n + 1))]
    assert signature(["Float[Array, 'a b']", "Float[Zeros, 'b a+1']"]).match(point)
    assert signature(["Float[Array, 'a a']", "Zeros"]).match(point) is None
    assert signature(["Float[Array, '3 _']", "Zeros"]).match(point) is None


# --- what a signature says of itself ---------------------------------------------------------


def test_signature_renders_with_the_users_own_names() -> None:
    found = signature(["Float[Array, '*batch m']", "Float[LoraMatrix, 'm n']"])
    assert found.render() == 'x0: Float[Array, "*batch m"], x1: Float[LoraMatrix, "m n"]'
    assert found.render(["x", "w"]) == ('x: Float[Array, "*batch m"], w: Float[LoraMatrix, "m n"]')
    assert signature(["Zeros"], vararg="Any").render() == "x0: Zeros, *rest: Any"
    assert signature(["<unannotated>", "Zeros"], min_arity=1).render() == "x0, x1: Zeros = ..."


def test_signature_says_what_it_looks_at() -> None:
    found = signature(["Zeros", "Float[Array, '...']", "Shaped[Array, 'n']"])
    assert [found.looks_at(i) for i in range(3)] == [set(), {"dtype"}, {"shape"}]
    assert not found.shape_free
    assert not found.dtype_free
    assert signature(["Zeros", "Shaped[Array, '...']"]).shape_free
    assert signature(["Zeros", "Shaped[Array, '...']"]).dtype_free
    assert signature([], vararg="Float[Array, 'n']").looks_at(7) == {"dtype", "shape"}


def test_union_of_classes_is_one_conjunction() -> None:
    found = signature(["Zeros | Eye | LoraMatrix", "Float[Array, 'n'] | Int[Array, 'n']"])
    assert len(found.conjunctions(2)) == 1


# --- agreement with the brute force and with jaxtyping ---------------------------------------


def test_matcher_agrees_with_the_brute_force() -> None:
    rng = random.Random(3)
    matched = 0
    for _ in range(300):
        arity = rng.choice([1, 2])
        row = brute_force.random_row(rng.choice, arity, 2, symbolic=rng.random() < 0.5)
        dims = [parse_dims(text) for text in row]
        inside = brute_force.points(row, (0, 1, 2), 2)
        shapes = brute_force.tuples((0, 1, 2), 2)
        for _ in range(40):
            point = tuple(rng.choice(shapes) for _ in range(arity))
            assert (match_shapes(dims, point) is not None) == (point in inside), (row, point)
        for point in rng.sample(sorted(inside), min(5, len(inside))):
            matched += 1
            assert match_shapes(dims, point) is not None, (row, point)
    assert matched > 300


class ShapeAndDtype:
    """All that jaxtyping looks at."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)


def jaxtyping_accepts(annotations: list[Any], point: list[ShapeAndDtype]) -> bool:
    with jaxtyped("context"):
        return all(isinstance(v, a) for v, a in zip(point, annotations, strict=True))


def test_matcher_agrees_with_jaxtyping_where_both_mean_the_same() -> None:
    # Not the same: unions (ours backtrack), and expressions before their names (ours wait).
    rng = random.Random(4)
    matched = 0
    shapes = brute_force.tuples((1, 2, 3), 3)
    dtypes = {"float32": Float, "int32": Int, "bfloat16": Num, "bool": Shaped}
    for _ in range(250):
        arity = rng.choice([1, 2])
        row = brute_force.random_row(rng.choice, arity, 2)
        kinds = [rng.choice([Float, Int, Num, Shaped, Float32]) for _ in range(arity)]
        theirs = [k[ShapeAndDtype, t] for k, t in zip(kinds, row, strict=True)]
        ours = signature_of(
            (f"x{i}", k[Array, t], inspect.Parameter.POSITIONAL_ONLY, False)
            for i, (k, t) in enumerate(zip(kinds, row, strict=True))
        )
        for _ in range(60):
            point = [(rng.choice(shapes), rng.choice(list(dtypes))) for _ in range(arity)]
            expected = jaxtyping_accepts(theirs, [ShapeAndDtype(*p) for p in point])
            found = ours.match([Operand(Dense, dtype, shape) for shape, dtype in point])
            assert (found is not None) == expected, (row, kinds, point)
            matched += expected
    assert matched > 500


def test_dtype_categories_are_those_of_jaxtyping() -> None:
    import jaxtyping

    for name, mask in CATEGORIES.items():
        if name == "Shaped":
            continue
        category = getattr(jaxtyping, name, None)
        if category is not None:
            assert dtype_set(category.dtypes) == mask, name


# --- text of dims ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "n", "3", "_", "...", "*b n", "#n", "#*b 3", "n+1", "m*n", "n//2", "min(m,n)"]
)
def test_dims_print_as_they_are_written(text: str) -> None:
    assert str(parse_dims(text)) == text


@pytest.mark.parametrize(
    ("text", "same"),
    [
        pytest.param("n+n", "2*n", id="sum"),
        pytest.param("1+n", "n+1", id="order"),
        pytest.param("(n+1)*(n-1)", "n**2-1", id="product"),
        pytest.param("n-n+2", "2", id="a number after all"),
        pytest.param("rows=3", "3", id="named number"),
        pytest.param("_foo", "_", id="anonymous"),
        pytest.param("max(n,m)", "max(m,n)", id="max"),
        pytest.param("min(n,n)", "1*n", id="least of one"),
    ],
)
def test_dims_that_say_the_same_are_equal(text: str, same: str) -> None:
    assert parse_dims(text) == parse_dims(same)
    assert hash(parse_dims(text)) == hash(parse_dims(same))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        pytest.param("m n )", "')'", id="bracket"),
        pytest.param("1m", "'1m'", id="digit first"),
        pytest.param("m,n", "'m,n'", id="comma"),
        pytest.param("... ...", "two parts of any length", id="two sections"),
        pytest.param("*a *b", "two parts of any length", id="two named sections"),
        pytest.param("n/2", "write `//`", id="division"),
        pytest.param("*", "no name follows", id="star alone"),
        pytest.param("#", "no name follows", id="hash alone"),
        pytest.param("##n", "twice", id="hash twice"),
        pytest.param("rows=", "nothing follows", id="name without size"),
        pytest.param("x.shape", "only names", id="attribute"),
        pytest.param("f(n)", "only names", id="call"),
        pytest.param("n**m", "only names", id="power of a name"),
        pytest.param("n-", "neither a name", id="half an expression"),
        pytest.param("-1", "negative", id="negative"),
        pytest.param("#_", "without a name", id="broadcast anonymous"),
        pytest.param("{x.n}", "value-dependent", id="value"),
        pytest.param("?n", "PyTree", id="tree path"),
        pytest.param("*n+1", "only a name can follow", id="star on an expression"),
    ],
)
def test_misspelt_axes_are_refused_by_name(text: str, part: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        parse_dims(text)
    assert part in str(caught.value)
    assert caught.value.advice


def test_signature_without_a_mirror_says_so() -> None:
    with pytest.raises(ValueError, match="two operands"):
        signature(["Zeros"]).mirrored()


def test_signature_is_a_value() -> None:
    assert signature(["Zeros", "Float[Array, 'n']"]) == signature(["Zeros", "Float[Array, 'n']"])
    assert hash(signature(["Zeros"])) == hash(signature(["Zeros"]))
    assert isinstance(_signature.Signature.of(), Signature)
    assert Eye in signature(["Eye"]).classes
