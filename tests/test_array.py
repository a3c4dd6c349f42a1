"""ImplicitArray as users see it: defined, constructed, copied, shown and computed with."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import operator
import pickle
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax
from jaxtyping import Float

import typedqax as tq
from tests.implicit_world import (
    CASES,
    TABLE,
    LoraMatrix,
    Plain,
    Rows,
    Scaled,
    Zeros,
    close,
    compiled_once,  # noqa: F401  # a fixture
    numbers,
    transformed,
)
from typedqax import ops

cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
SAME = numbers(22, 3, 4)

# --- being a dataclass ----------------------------------------------------------------------------


class Undecorated(tq.ImplicitArray, materialization="allow"):
    x: Float[tq.ArrayValue, "m n"]
    y: Float[tq.ArrayValue, "m n"]
    name: str = tq.aux_field(default="none")

    def materialize(self) -> Array:
        return self.x + self.y


@dataclass
class Decorated(tq.ImplicitArray, materialization="allow"):
    x: Float[tq.ArrayValue, "m n"]
    y: Float[tq.ArrayValue, "m n"]
    name: str = tq.aux_field(default="none")

    def materialize(self) -> Array:
        return self.x + self.y


both = pytest.mark.parametrize("cls", [Undecorated, Decorated])


@both
def test_fields_make_the_constructor(cls: type[Any]) -> None:
    one, two = jnp.ones((2, 3)), jnp.zeros((2, 3))
    for value in (cls(one, two, "n"), cls(y=two, x=one, name="n")):
        assert value.x is one
        assert value.y is two
        assert value.name == "n"
    assert cls(one, two).name == "none"


@both
def test_the_constructor_takes_shape_and_dtype_by_keyword(cls: type[Any]) -> None:
    value = cls(jnp.ones((2, 3)), jnp.zeros((2, 3)), shape=(2, 3), dtype=jnp.float32)
    assert (value.shape, value.dtype) == ((2, 3), jnp.float32)
    parameters = inspect.signature(cls).parameters
    assert list(parameters) == ["x", "y", "name", "shape", "dtype"]
    assert parameters["shape"].kind is parameters["dtype"].kind is inspect.Parameter.KEYWORD_ONLY


@both
def test_a_missing_or_unknown_argument_is_python_s_own_error(cls: type[Any]) -> None:
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'y'"):
        cls(jnp.ones((2, 3)))
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'z'"):
        cls(jnp.ones((2, 3)), jnp.ones((2, 3)), z=1)


@both
def test_it_is_a_dataclass(cls: type[Any]) -> None:
    assert dataclasses.is_dataclass(cls)
    assert [f.name for f in dataclasses.fields(cls)] == ["x", "y", "name"]


@both
def test_fields_can_be_set(cls: type[Any]) -> None:
    value = cls(jnp.ones((2, 3)), jnp.zeros((2, 3)))
    value.x = jnp.full((2, 3), 2.0)
    close(value.materialize(), jnp.full((2, 3), 2.0))


@both
def test_replace_gives_a_changed_copy(cls: type[Any]) -> None:
    value = cls(jnp.ones((2, 3)), jnp.zeros((2, 3)))
    changed = dataclasses.replace(value, name="new", x=jnp.full((2, 3), 5.0))
    assert type(changed) is cls
    assert (changed.name, value.name) == ("new", "none")
    close(changed.materialize(), jnp.full((2, 3), 5.0))


def test_replace_checks_the_new_fields() -> None:
    value = Undecorated(jnp.ones((2, 3)), jnp.zeros((2, 3)))
    with pytest.raises(tq.ContractError, match="axis m is"):
        dataclasses.replace(value, x=jnp.ones((4, 3)))


def test_replace_keeps_a_given_shape_and_dtype() -> None:
    value = Zeros(shape=(2, 3), dtype=jnp.int8)
    assert dataclasses.replace(value).shape == (2, 3)
    assert dataclasses.replace(value, dtype=jnp.int16).dtype == jnp.int16
    assert dataclasses.replace(value, shape=(7,)).shape == (7,)
    assert dataclasses.replace(value, shape=(7,)).dtype == jnp.int8


def test_replace_derives_a_shape_that_was_derived_anew() -> None:
    value = Plain(jnp.ones((2, 3)))
    assert value.shape == (2, 3)
    assert dataclasses.replace(value, inside=jnp.ones(4)).shape == (4,)


def test_a_subclass_of_a_class_whose_shape_was_given_keeps_its_own() -> None:
    class Base(tq.ImplicitArray):
        def materialize(self) -> Array:
            return jnp.zeros(self.shape, self.dtype)

    Base(shape=(2,), dtype=jnp.int8)

    class Sub(Base):
        n: int = tq.aux_field(default=1)

    value = Sub(3, shape=(4,), dtype=jnp.int16)
    assert (value.shape, value.dtype, value.n) == ((4,), jnp.int16, 3)
    assert [f.name for f in dataclasses.fields(value)] == ["n"]
    assert dataclasses.replace(value, n=5).shape == (4,)


def test_subclasses_add_fields_and_keep_handlers() -> None:
    class Named(LoraMatrix):
        name: str = tq.aux_field(default="n")

    leaves = CASES["lora"].make(0)
    make: Any = Named
    value = make(*leaves, 0.5, "named")
    result = transformed(lambda x, w: x @ w, handlers=TABLE)(numbers(1, 2, 3), value)
    close(result, numbers(1, 2, 3) @ CASES["lora"].meaning(*leaves))
    with tq.materialization("error"):
        transformed(lambda x, w: x @ w, handlers=TABLE)(numbers(1, 2, 3), value)


@pytest.mark.parametrize("decorate", [dataclass, lambda cls: cls], ids=["@dataclass", "plain"])
def test_bases_and_subclasses_may_be_decorated_or_not(decorate: Callable[[Any], Any]) -> None:
    for base in (Undecorated, Decorated):

        class Sub(base):  # type: ignore[valid-type, misc]  # a class in a variable
            z: tq.ArrayValue = 0.0  # type: ignore[assignment]  # a number stands for itself

            def materialize(self) -> Any:
                return self.x + self.y + self.z

        cls = decorate(Sub)
        value = cls(jnp.ones((2, 3)), jnp.zeros((2, 3)), "s", jnp.array(2.0))
        assert value.shape == (2, 3)
        close(tq.materialize(value), jnp.full((2, 3), 3.0))
        assert jax.tree.structure(value).num_leaves == 3


def test_init_vars_go_to_post_init() -> None:
    class WithInitVar(tq.ImplicitArray, materialization="allow"):
        x: Float[tq.ArrayValue, "n"]
        y: Float[tq.ArrayValue, "n"] = dataclasses.field(init=False)
        times: InitVar[float] = 2.0

        def __post_init__(self, times: float) -> None:
            self.y = self.x * times

        def materialize(self) -> Array:
            return self.y

    value = WithInitVar(jnp.ones(3), 5.0)
    close(tq.materialize(value), jnp.full(3, 5.0))
    assert jax.tree.structure(value).num_leaves == 2
    close(tq.materialize(WithInitVar(jnp.ones(3))), jnp.full(3, 2.0))


@pytest.mark.parametrize("decorate", [dataclass, lambda cls: cls], ids=["@dataclass", "plain"])
def test_post_init_may_give_the_shape_and_dtype(decorate: Callable[[Any], Any]) -> None:
    class Constant(tq.ImplicitArray):
        value: Any
        size_: InitVar[int]

        def __post_init__(self, size_: int) -> None:
            self.shape = (size_,)
            self.dtype = jnp.float32

        def materialize(self) -> Array:
            return jnp.full(self.shape, self.value, self.dtype)

    made = decorate(Constant)(jnp.array(2.0), 3)
    assert (made.shape, made.dtype) == ((3,), jnp.float32)


@pytest.mark.parametrize("decorate", [dataclass, lambda cls: cls], ids=["@dataclass", "plain"])
def test_a_hand_written_init_gives_shape_and_dtype_to_super(
    decorate: Callable[[Any], Any],
) -> None:
    class Eye(tq.ImplicitArray, materialization="allow"):
        def __init__(self, n: int, dtype: Any = jnp.float32) -> None:
            super().__init__(shape=(n, n), dtype=dtype)

        def materialize(self) -> Array:
            return jnp.eye(self.shape[0], dtype=self.dtype)

    cls = decorate(Eye)
    value = cls(3, dtype=jnp.int8)
    assert (value.shape, value.dtype) == ((3, 3), jnp.int8)
    close(tq.materialize(value), jnp.eye(3, dtype=jnp.int8))
    again = jax.tree.map(lambda leaf: leaf, value)
    assert (type(again), again.shape, again.dtype) == (cls, (3, 3), jnp.int8)
    assert cls(3, jnp.int8).shape == cls(n=3).shape


def test_a_subclass_without_fields_inherits_a_hand_written_init() -> None:
    class Written(tq.ImplicitArray):
        x: Float[tq.ArrayValue, "n"]

        def __init__(self, n: int) -> None:
            super().__init__(shape=(n,), dtype=jnp.float32)
            self.x = jnp.arange(float(n))

        def materialize(self) -> Array:
            return self.x

    class Inherits(Written):
        def materialize(self) -> Array:
            return 2.0 * self.x

    make: Any = Inherits  # a type checker takes the constructor of a subclass from its fields
    assert make(3).shape == (3,)
    close(make(3).materialize(), jnp.arange(0.0, 6.0, 2.0))


def test_a_hand_written_init_must_set_every_field() -> None:
    class Forgets(tq.ImplicitArray):
        x: tq.ArrayValue

        def __init__(self) -> None:
            super().__init__(shape=(2,), dtype=jnp.float32)

        def materialize(self) -> Array:
            return self.x

    with pytest.raises(TypeError, match=r"^Forgets\.__init__ does not set the field 'x'\.$"):
        Forgets()


def test_a_hand_written_init_may_set_fields_before_or_after_super() -> None:
    class Before(tq.ImplicitArray):
        x: Float[tq.ArrayValue, "n"]

        def __init__(self, x: Array) -> None:
            self.x = x
            super().__init__(shape=x.shape, dtype=x.dtype)

        def materialize(self) -> Array:
            return self.x

    assert Before(jnp.ones(3)).shape == (3,)


def test_a_class_without_materialize_cannot_be_made() -> None:
    class Abstract(tq.ImplicitArray):
        x: tq.ArrayValue

    with pytest.raises(TypeError, match=r"abstract.*materialize"):
        Abstract(jnp.ones(2))  # type: ignore[abstract]  # that is the mistake


def test_class_variables_are_no_fields() -> None:
    class Counts(tq.ImplicitArray):
        x: tq.ArrayValue
        made: ClassVar[int] = 0
        unannotated = 3

        def materialize(self) -> Array:
            return self.x

    assert [f.name for f in dataclasses.fields(Counts(jnp.ones(2)))] == ["x"]


T = TypeVar("T")


def test_a_class_may_be_generic() -> None:
    class Boxed(tq.ImplicitArray, Generic[T], materialization="allow"):
        x: tq.ArrayValue
        tag: T | None = tq.aux_field(default=None)

        def materialize(self) -> Array:
            return self.x

    close(tq.materialize(Boxed[str](jnp.ones(2), "t")), jnp.ones(2))


def test_fields_may_hold_trees_of_arrays() -> None:
    class Sum(tq.ImplicitArray, materialization="allow"):
        parts: list[tq.ArrayValue]
        named: dict[str, tq.ArrayValue]

        def materialize(self) -> Array:
            return sum(self.parts, jnp.zeros(())) + self.named["b"]

    value = Sum([jnp.ones(2), Plain(jnp.ones(2))], {"b": Plain(jnp.full(2, 3.0))})
    assert value.shape == (2,)
    close(transformed(lambda x: x * 2.0)(value), jnp.full(2, 10.0))
    assert repr(value) == (
        "Sum f32[2](parts=list(f32[2], Plain f32[2](inside=f32[2])), "
        "named={'b': Plain f32[2](inside=f32[2])})"
    )


# --- auxiliary data -------------------------------------------------------------------------------


class Aux(tq.ImplicitArray):
    x: tq.ArrayValue
    extra: Any = tq.aux_field(default=None)

    def materialize(self) -> Array:
        return self.x


UNHASHABLE = {"list": [1, 2], "dict": {}, "set": {1}, "tuple of a list": ([1],)}


@pytest.mark.parametrize("extra", UNHASHABLE.values(), ids=UNHASHABLE.keys())
def test_unhashable_auxiliary_data_is_a_clear_error(extra: Any) -> None:
    with pytest.raises(tq.ContractError) as caught:
        Aux(jnp.ones(2), extra)
    text = str(caught.value)
    assert text.startswith(f"Aux.extra is auxiliary data, but holds a {type(extra).__name__},")
    assert "use a tuple, a frozenset, a frozen dataclass" in text


ARRAYS = {
    "jax array": (jnp.ones(2), "an array"),
    "numpy array": (np.ones(2), "an array"),
    "implicit array": (Plain(jnp.ones(2)), "an implicit array"),
    "tuple of an array": ((1, jnp.ones(2)), "an array"),
    "numpy array in a tuple": (((np.ones(2),),), "an array"),
}


@pytest.mark.parametrize(("extra", "what"), ARRAYS.values(), ids=ARRAYS.keys())
def test_array_valued_auxiliary_data_is_a_clear_error(extra: Any, what: str) -> None:
    with pytest.raises(tq.ContractError) as caught:
        Aux(jnp.ones(2), extra)
    text = str(caught.value)
    assert text.startswith("Aux.extra is auxiliary data, but holds ")
    assert what in text.splitlines()[0]
    assert "without aux_field" in text


def test_a_traced_number_as_auxiliary_data_is_a_clear_error() -> None:
    with pytest.raises(tq.ContractError, match=r"Aux\.extra is auxiliary data, but holds an array"):
        jax.jit(lambda s: Aux(jnp.ones(2), s))(1.0)


@pytest.mark.parametrize(
    "extra", [1, 1.5, "s", (1, "s"), None, jnp.float32, np.dtype("int8"), jax.lax.add_p, len]
)
def test_hashable_auxiliary_data_is_fine(extra: Any) -> None:
    value = Aux(jnp.ones(2), extra)
    assert jax.tree.map(lambda x: x, value).extra == extra


def test_aux_field_takes_a_default_factory_and_keyword_only() -> None:
    class Options(tq.ImplicitArray):
        x: tq.ArrayValue
        names: tuple[str, ...] = tq.aux_field(default_factory=tuple)
        flag: bool = tq.aux_field(default=False, kw_only=True)

        def materialize(self) -> Array:
            return self.x

    assert Options(jnp.ones(2)).names == ()
    assert Options(jnp.ones(2), ("a",), flag=True).flag
    with pytest.raises(TypeError, match="positional"):
        Options(jnp.ones(2), ("a",), True)  # type: ignore[arg-type, call-arg]  # the mistake


def test_aux_field_keeps_metadata_of_the_user_s() -> None:
    class Described(tq.ImplicitArray):
        x: tq.ArrayValue
        unit: str = tq.aux_field(default="m", metadata={"doc": "the unit"})

        def materialize(self) -> Array:
            return self.x

    assert dataclasses.fields(Described(jnp.ones(2)))[1].metadata["doc"] == "the unit"


# --- names that would hide members ----------------------------------------------------------------


HIDDEN = ["T", "sum", "at", "real", "sharding", "astype", "aval", "materialize", "default_shape"]


@pytest.mark.parametrize("name", HIDDEN)
def test_a_field_that_hides_a_member_of_arrays_is_refused_when_defined(name: str) -> None:
    with pytest.raises(tq.SignatureError) as caught:
        type("Hides", (tq.ImplicitArray,), {"__annotations__": {name: Array}})
    assert str(caught.value).startswith(f"`Hides.{name}` (")
    assert str(caught.value).endswith(
        ") cannot be a field: it would hide the member of arrays that has this name; "
        "rename the field"
    )


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        pytest.param(str, "str", id="str"),
        pytest.param("str", "str", id="str, postponed"),
        pytest.param(bytes, "bytes", id="bytes"),
    ],
)
def test_text_that_is_no_auxiliary_data_is_refused_when_defined(kind: object, shown: str) -> None:
    with pytest.raises(tq.SignatureError) as caught:
        type("Named", (tq.ImplicitArray,), {"__annotations__": {"x": Array, "name": kind}})
    assert str(caught.value).endswith(
        f") cannot be an array field: {shown} is no array, and a field is a leaf of the pytree: "
        f"keep it as auxiliary data, name: {shown} = aux_field()"
    )


class Mode(enum.Enum):
    FAST = 1


class WithMode(tq.ImplicitArray):
    x: tq.ArrayValue
    mode: Mode | None

    def materialize(self) -> Array:
        return self.x


def test_other_data_that_is_no_array_is_refused_at_its_first_use() -> None:
    line = next(
        at
        for at, text in enumerate(Path(__file__).read_text().splitlines(), start=1)
        if text == "    mode: Mode | None"
    )
    with pytest.raises(tq.SignatureError) as caught:
        WithMode(jnp.ones(2), Mode.FAST)
    assert str(caught.value).startswith(
        f"`WithMode.mode` ({__file__}:{line}) cannot be an array field: "
    )
    assert str(caught.value).endswith("mode: Mode | None = aux_field()")


@pytest.mark.parametrize("name", ["shape", "dtype"])
def test_a_field_named_shape_or_dtype_is_told_how_to_give_it(name: str) -> None:
    with pytest.raises(TypeError, match="keyword arguments of every implicit array"):
        type("Hides", (tq.ImplicitArray,), {"__annotations__": {name: Array}})


def test_class_defaults_may_be_annotated_as_class_variables() -> None:
    class Annotated(tq.ImplicitArray):
        default_shape: ClassVar[tuple[int, ...]] = (2,)
        default_dtype: ClassVar[Any] = jnp.float32

        def materialize(self) -> Array:
            return jnp.zeros(self.shape, self.dtype)

    assert Annotated().shape == (2,)


# --- class keywords -------------------------------------------------------------------------------


def test_an_unknown_policy_is_refused_when_the_class_is_defined() -> None:
    with pytest.raises(TypeError, match="materialization='never' is none of 'warn', 'allow', 'err"):

        class Wrong(tq.ImplicitArray, materialization="never"):  # type: ignore[arg-type]  # mistake
            pass


def test_two_ways_to_say_the_policy_are_refused() -> None:
    with pytest.raises(TypeError, match="give materialization= or warn_on_materialize=, not both"):

        class Both(tq.ImplicitArray, materialization="warn", warn_on_materialize=False):
            pass


def test_an_unknown_class_keyword_is_python_s_own_error() -> None:
    with pytest.raises(TypeError, match="__init_subclass__"):

        class Unknown(tq.ImplicitArray, comute_ops=False):  # type: ignore[call-arg]  # the mistake
            pass


# --- copying --------------------------------------------------------------------------------------

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "tree map": lambda x: jax.tree.map(lambda leaf: leaf, x),
    "replace": dataclasses.replace,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())
@cases
def test_a_copy_is_the_same_array(copied: Callable[[Any], Any], case: Any) -> None:
    value, dense = case.both()
    again = copied(value)
    assert again is not value
    assert type(again) is type(value)
    assert (again.shape, again.dtype) == (value.shape, value.dtype)
    assert jax.tree.structure(again) == jax.tree.structure(value)
    close(tq.materialize(again), dense)


def test_a_deep_copy_does_not_share_its_arrays() -> None:
    value = Plain(np.ones(3))  # type: ignore[arg-type]  # a numpy array
    deep = copy.deepcopy(value)
    value.inside[0] = 5.0
    assert deep.inside[0] == 1.0


def test_a_tree_of_axes_can_be_copied_and_pickled() -> None:
    axes = LoraMatrix(0, None, 1, 0.5)  # type: ignore[arg-type]  # a tree of axes
    for copied in COPIES.values():
        again = copied(axes)
        assert (again.w, again.a, again.b) == (0, None, 1)


# --- being shown ----------------------------------------------------------------------------------


def test_repr_shows_class_dtype_shape_and_fields_but_no_contents() -> None:
    value = LoraMatrix(jnp.full((512, 512), 7.0), jnp.ones((512, 2)), jnp.ones((512, 2)), 0.5)
    assert (
        repr(value)
        == "LoraMatrix f32[512,512](w=f32[512,512], a=f32[512,2], b=f32[512,2], alpha=0.5)"
    )
    assert str(value) == f"{value}" == repr(value)


def test_repr_of_nested_and_leafless_arrays() -> None:
    assert repr(Zeros(shape=(), dtype=jnp.int8)) == "Zeros i8[]()"
    assert repr(Rows(jnp.ones(4), count=2)) == "Rows f32[2,4](row=f32[4], count=2)"
    assert repr(Scaled(Plain(jnp.ones(2)), jnp.ones(()))) == (
        "Scaled f32[2](x=Plain f32[2](inside=f32[2]), factor=f32[])"
    )


def test_repr_works_inside_jit_and_the_transform() -> None:
    shown = []
    value, _ = CASES["lora"].both()
    text = "LoraMatrix f32[3,4](w=f32[3,4], a=f32[3,2], b=f32[4,2], alpha=0.5)"
    jax.jit(lambda w: shown.append(repr(w)))(value)
    jax.vmap(lambda w: shown.append(repr(w)))(jax.tree.map(lambda x: x[None], value))
    assert shown == [text, text]
    transformed(lambda w: shown.append(repr(w)))(value)
    transformed(lambda w: shown.append(f"{w}"))(value)
    assert all("LoraMatrix" in s and "3,4" in s for s in shown)


def test_repr_never_fails() -> None:
    class Nasty:
        def __repr__(self) -> str:
            raise RuntimeError

    tree = jax.tree.structure(CASES["nested"].both()[0])
    for leaf in (None, object(), "s" * 1000, Nasty(), jax.ShapeDtypeStruct((1,), jnp.int8), 1):
        text = repr(jax.tree.unflatten(tree, [leaf] * tree.num_leaves))
        assert text.startswith("LoraMatrix ")
        assert len(text) < 1000
    half_made = object.__new__(LoraMatrix)
    assert repr(half_made).startswith("LoraMatrix ?")


def test_repr_of_an_array_whose_shape_is_unknown_says_so() -> None:
    class Broken(tq.ImplicitArray):
        x: tq.ArrayValue

        def materialize(self) -> Array:
            raise RuntimeError

    assert repr(Broken(jnp.ones(2))) == "Broken ?(x=f32[2])"


def test_a_repr_of_the_user_s_own_is_kept() -> None:
    class Own(tq.ImplicitArray):
        x: tq.ArrayValue

        def __repr__(self) -> str:
            return "own"

        def materialize(self) -> Array:
            return self.x

    assert repr(Own(jnp.ones(2))) == repr(dataclass(Own)(jnp.ones(2))) == "own"


# --- operators, methods and properties outside the transform --------------------------------------

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
    *("numpy", "bool", "int", "float", "complex", "item", "item at", "tolist"),
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


# --- closed over, or made inside ------------------------------------------------------------------

USES: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda x, w: x @ w,
    "reflected": lambda x, w: w.T @ x.T,
    "method": lambda x, w: x + w.sum(),
    "property": lambda x, w: x @ w.T.T,
    "indexing": lambda x, w: x[:, :1] + w[0, 0],
    "at": lambda x, w: x @ w.at[0].set(1.0),
    "einsum": lambda x, w: jnp.einsum("bm,mn->bn", x, w),
    "asarray": lambda x, w: x @ jnp.asarray(w),
    "stack": lambda x, w: jnp.stack([w, w]) + x.sum(),
    "concatenate": lambda x, w: jnp.concatenate([w, w]) + x.sum(),
    "reshape": lambda x, w: jnp.reshape(w, (-1,)) + x.sum(),
    "transpose": lambda x, w: jnp.transpose(w) + x.sum(),
    "lax": lambda x, w: lax.neg(w) + x.sum(),
    "bind": lambda x, w: lax.neg_p.bind(w) + x.sum(),
    "jnp.sin": lambda x, w: jnp.sin(w) + x.sum(),
    "jnp.dot": lambda x, w: jnp.dot(x, w),
    "inner jit": lambda x, w: jax.jit(lambda x: x @ w)(x),
    "inner jit, lax": lambda x, w: jax.jit(lambda x: lax.neg(w) + x.sum())(x),
    "scan": lambda x, w: lax.scan(lambda c, row: (c, row @ w), 0.0, x)[1],
    "cond": lambda x, w: lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: -(x @ w)),
    "vmap": lambda x, w: jax.vmap(lambda row: row @ w)(x),
    "grad": lambda x, w: jax.grad(lambda x: jnp.sum(jnp.sin(x @ w)))(x),
    "relu": lambda x, w: jax.nn.relu(w) + x.sum(),
    "checkpoint": lambda x, w: jax.checkpoint(lambda x: jnp.sin(x @ w))(x),
}


@pytest.mark.parametrize("f", USES.values(), ids=USES.keys())
@pytest.mark.parametrize("name", ["lora", "zeros"])
def test_a_closed_over_implicit_array_works_inside(f: Callable[..., Any], name: str) -> None:
    value, dense = CASES[name].both()
    x = numbers(1, 2, 3)
    got = transformed(lambda x: f(tq.materialize(x), value), handlers=TABLE)(Plain(x))
    close(tq.materialize(got), f(x, dense))


@pytest.mark.parametrize("f", USES.values(), ids=USES.keys())
def test_an_implicit_array_made_inside_works(f: Callable[..., Any]) -> None:
    leaves = CASES["lora"].make(0)
    x = numbers(1, 2, 3)

    def g(x: Any, w: Any) -> Any:
        return f(tq.materialize(x), CASES["lora"].build(w, *leaves[1:]))

    close(
        tq.materialize(tq.use_implicit_args(g, handlers=TABLE)(Plain(x), leaves[0])),
        f(x, CASES["lora"].meaning(*leaves)),
    )


def test_an_operator_on_a_closed_over_array_runs_the_handlers_of_the_transform() -> None:
    value, dense = CASES["lora"].both()
    x = numbers(1, 2, 3)
    f = transformed(lambda y: (x @ value) * y.x, handlers=TABLE, isolated=True)
    with tq.materialization("error"):
        close(f(Scaled(jnp.array(2.0), jnp.array(1.0))), (x @ dense) * 2.0)


def test_an_array_made_inside_is_returned_as_it_is() -> None:
    leaves = CASES["lora"].make(0)
    result = transformed(lambda p: CASES["lora"].build(*leaves))(Plain(jnp.ones(2)))
    assert type(result) is LoraMatrix
    close(tq.materialize(result), CASES["lora"].meaning(*leaves))


def test_fields_can_be_read_inside_and_are_lifted() -> None:
    value, _ = CASES["nested"].both()

    def f(w: LoraMatrix) -> Any:
        assert isinstance(w, LoraMatrix)
        assert isinstance(w.w, Scaled)
        assert w.alpha == 0.5
        return w.w * 2.0, w.b

    scaled, b = tq.use_implicit_args(f, handlers=TABLE)(value)
    assert type(scaled) is Scaled
    assert b is value.b


def test_a_method_of_the_user_s_own_can_be_called_inside() -> None:
    class WithMethod(tq.ImplicitArray, materialization="allow"):
        x: Float[tq.ArrayValue, "n"]
        times: float = tq.aux_field(default=3.0)

        @property
        def tripled(self) -> Array:
            return self.x * self.times

        def plus(self, y: Array) -> Array:
            return self.x + y

        def materialize(self) -> Array:
            return self.x

    value = WithMethod(jnp.ones(3))
    close(
        transformed(lambda w: (w.tripled, w.plus(jnp.ones(3))))(value),
        (jnp.full(3, 3.0), jnp.full(3, 2.0)),
    )


@pytest.mark.parametrize("f", [lax.neg, lax.neg_p.bind], ids=["lax", "bind"])
def test_a_lax_function_outside_says_pass_it_as_an_argument(f: Callable[..., Any]) -> None:
    value, _ = CASES["lora"].both()
    for call in (f, jax.jit(lambda w: f(w))):
        with pytest.raises(tq.TypedQaxError) as caught:
            call(value)
        assert str(caught.value).startswith(
            "LoraMatrix f32[3,4](w=f32[3,4], a=f32[3,2], b=f32[4,2], alpha=0.5) reached a JAX "
            "primitive outside use_implicit_args. Pass it as an argument to a function wrapped in "
            "use_implicit_args; outside of one, its operators and methods (x @ w, w.sum(), ...) "
            "and typedqax.materialize(w) work."
        )


RAW: dict[str, Callable[[Any], Any]] = {
    "jnp.add": lambda w: jnp.add(w, w),
    "jnp.sum": jnp.sum,
    "jnp.einsum": lambda w: jnp.einsum("mn->nm", w),
    "jnp.stack": lambda w: jnp.stack([w, w]),
}


@pytest.mark.parametrize("f", RAW.values(), ids=RAW.keys())
def test_a_jnp_function_outside_is_an_error_that_names_the_class(f: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match="LoraMatrix"):
        f(CASES["lora"].both()[0])


def test_operators_of_a_value_made_under_plain_jit_work() -> None:
    leaves = CASES["lora"].make(0)
    got = jax.jit(lambda *v: numbers(1, 2, 3) @ CASES["lora"].build(*v))(*leaves)
    close(got, numbers(1, 2, 3) @ CASES["lora"].meaning(*leaves))


def test_handlers_and_materialize_may_compute_with_implicit_fields() -> None:
    ran = []

    def negate(x: Plain, /) -> Plain:
        ran.append("plain")
        return Plain(-x.inside)

    def negate_scaled(x: Scaled, /) -> Scaled:
        ran.append("scaled")
        inner = -x.x
        assert isinstance(inner, Plain)
        return Scaled(inner, x.factor)

    table = tq.HandlerTable("t", ops.neg.to(negate), ops.neg.to(negate_scaled))
    result = tq.use_implicit_args(jnp.negative, handlers=table)(Scaled(Plain(SAME), jnp.array(2.0)))
    assert ran == ["scaled", "plain"]
    assert type(result) is Scaled
    assert type(result.x) is Plain
    close(tq.materialize(result), -SAME * 2.0)


@pytest.mark.parametrize("depth", [1, 2, 5, 12])
def test_nesting_to_any_depth_gives_the_same_numbers(depth: int) -> None:
    value = functools.reduce(
        lambda inner, k: Scaled(Plain(inner), jnp.array(1.0 + k)), range(depth), SAME
    )
    factor = np.prod([1.0 + k for k in range(depth)])
    close(tq.materialize(value), SAME * float(factor), 1e-4)
    got = jax.jit(transformed(lambda w: jnp.tanh(w * 0.01), handlers=TABLE))(value)
    close(tq.materialize(got), jnp.tanh(SAME * float(factor) * 0.01), 1e-4)
