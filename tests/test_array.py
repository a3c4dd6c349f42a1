"""ImplicitArray as users see it: how classes are defined, copied and closed over."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import inspect
import pickle
import traceback
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
    Scaled,
    Zeros,
    close,
    numbers,
    transformed,
)
from typedqax import ops

pytestmark = pytest.mark.without_leak_checks

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


class Power(tq.ImplicitArray, materialization="allow"):
    base: Float[tq.ArrayValue, "n"]
    exponent: Any = tq.aux_field(default=2)

    def materialize(self) -> Array:
        return self.base ** int(self.exponent) + 100.0 * (type(self.exponent) is float)


def test_auxiliary_data_that_is_assigned_is_another_type_to_jax_as_in_a_new_array() -> None:
    compiled = jax.jit(lambda power: power.materialize())
    value = Power(jnp.full(3, 3.0), 2)
    close(compiled(value), jnp.full(3, 9.0))
    value.exponent = 2.0  # equal to 2, but of another type
    close(compiled(value), jnp.full(3, 109.0))
    assert jax.tree.structure(value) == jax.tree.structure(Power(value.base, 2.0))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param([1], "holds a list, which cannot be hashed", id="unhashable"),
        pytest.param(np.ones(2), "holds an array", id="array"),
    ],
)
def test_what_is_no_auxiliary_data_is_refused_where_it_is_assigned(
    given: Any, problem: str
) -> None:
    value = Power(jnp.ones(3), 2)
    with pytest.raises(
        tq.ContractError, match=f"^Power.exponent is auxiliary data, but {problem}"
    ) as caught:
        value.exponent = given
    assert value.exponent == 2
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert {frame.filename for frame in frames} == {__file__}


def test_a_class_that_assigns_by_itself_is_checked_as_any() -> None:
    class Converts(Power, materialization="allow"):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, tuple(value) if isinstance(value, list) else value)

    class Stores(tq.ImplicitArray, materialization="allow"):
        x: Any
        factor: Any = tq.aux_field(default=2)

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        def materialize(self) -> Array:
            return jnp.full(self.x.shape, self.factor)

    converts = Converts(jnp.ones(3), 2)
    converts.exponent = [1, 2]
    assert converts.exponent == (1, 2)
    stores = Stores(jnp.arange(3), 2.0)
    compiled = jax.jit(tq.materialize)
    assert compiled(stores).dtype == jnp.float32
    stores.factor = 2
    assert compiled(stores).dtype == jnp.int32
    with pytest.raises(tq.ContractError, match=r"^Stores.factor is auxiliary data, but holds an"):
        stores.factor = jnp.ones(2)
    assert stores.factor == 2


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


@pytest.mark.parametrize(
    ("annotation", "is_field"),
    [
        (ClassVar, False),
        (ClassVar[int], False),
        ("ClassVar[int]", False),
        ("typing.ClassVar", False),
        ("MyClassVariant", True),
        ("dict[str, ClassVariant]", True),
    ],
)
def test_a_name_of_arrays_may_be_a_class_variable_and_no_field(
    annotation: Any, is_field: bool
) -> None:
    body = {"__annotations__": {"T": annotation}, "__module__": __name__}
    if is_field:
        with pytest.raises(TypeError, match="would hide the member of arrays"):
            type("Named", (tq.ImplicitArray,), body)
    else:
        assert issubclass(type("Named", (tq.ImplicitArray,), body), tq.ImplicitArray)


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


def test_a_field_that_no_instance_could_keep_is_refused_when_defined() -> None:
    with pytest.raises(tq.SignatureError) as described:

        class Overrides(Power):
            @property  # type: ignore[misc]  # what is refused here too
            def exponent(self) -> Any:
                return 3

    with pytest.raises(tq.SignatureError) as slotted:

        @dataclasses.dataclass(slots=True)
        class Slotted(tq.ImplicitArray):
            x: Array

            def materialize(self) -> Array:
                return self.x

    assert "Overrides.exponent` (" in str(described.value)
    assert str(described.value).endswith(
        ") cannot be a field: the class has a property of this name, which stands between the "
        "field and the instance's __dict__; give one of them another name"
    )
    assert "Slotted.x` (" in str(slotted.value)
    assert str(slotted.value).endswith(
        ") cannot be a field: __slots__ keeps it out of the instance's __dict__; leave out slots"
    )


@pytest.mark.parametrize("name", ["cls", "self", "value", "args", "kwargs", "name", "é"])
def test_a_field_may_have_a_name_that_is_in_use_elsewhere(name: str) -> None:
    cls: Any = type(
        "Named",
        (tq.ImplicitArray,),
        {"__annotations__": {name: Any}, "materialize": lambda self: getattr(self, name)},
        materialization="allow",
    )
    value = cls(**{name: jnp.arange(3.0)})
    close(jax.jit(transformed(lambda x: x * 2.0))(value), 2 * jnp.arange(3.0))


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


def test_a_lax_function_in_a_handler_says_what_works_there() -> None:
    value, _ = CASES["lora"].both()

    def negated(w: LoraMatrix, /) -> jax.Array:
        return lax.neg(w)

    table = tq.HandlerTable("negated", ops.sin.to(negated))
    with pytest.raises(tq.TypedQaxError) as caught:
        tq.use_implicit_args(jnp.sin, handlers=table)(value)
    line = negated.__code__.co_firstlineno
    assert str(caught.value) == (
        f"LoraMatrix f32[3,4](w=f32[3,4], a=f32[3,2], b=f32[4,2], alpha=0.5) reached a JAX "
        f"primitive in the handler negated ({__file__}:{line}), where it is the "
        f"implicit array itself. There its fields, its operators and methods (x @ w, w.sum(), "
        f"...), typedqax.materialize(w), the primitives in typedqax.ops (ops.neg.bind(w)) and "
        f"functions under use_implicit_args work."
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
