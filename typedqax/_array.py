"""ImplicitArray as users see it: how it is defined, constructed, shown and computed with."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, overload

import jax
import numpy as np
from jax.core import ShapedArray, Tracer
from jax.typing import DTypeLike
from typing_extensions import TypedDict, TypeIs, Unpack, dataclass_transform

from typedqax import _jax
from typedqax._aval import (
    aval_of,
    batch_shape,
    class_error,
    derive,
    field_error,
    given_dtype,
    given_shape,
    is_array_like,
    look,
    no_leaf_problem,
)
from typedqax._collecting import refuse
from typedqax._contracts import check_fields
from typedqax._errors import ContractError, Problem, TypedQaxError
from typedqax._installed import recheck_class
from typedqax._materialization import Policy
from typedqax._trace import ImplicitTrace, enclosing_trace
from typedqax._transform import apply, densify_for, materialize, materialize_under_trace
from typedqax._value import (
    AUX,
    EXACT,
    EXTENT,
    FieldNames,
    ImplicitValue,
    exactness,
    field_names,
    is_value,
)

T = TypeVar("T")


# --- fields --------------------------------------------------------------------------------------


class FieldOptions(TypedDict, total=False):
    """What `dataclasses.field` takes beside a default."""

    init: bool
    repr: bool
    hash: bool | None
    compare: bool
    kw_only: bool
    metadata: Mapping[Any, Any] | None


@overload
def aux_field(*, default: T, **options: Unpack[FieldOptions]) -> T: ...
@overload
def aux_field(*, default_factory: Callable[[], T], **options: Unpack[FieldOptions]) -> T: ...
@overload
def aux_field(**options: Unpack[FieldOptions]) -> Any: ...
def aux_field(**options: Any) -> Any:
    """A dataclass field that is auxiliary data: part of the pytree's structure, not a leaf.

    Its value is hashable and holds no arrays; two arrays whose auxiliary data differ are of
    different types to JAX, so a change of it recompiles.

    Args:
        options: those of `dataclasses.field`.

    Example:
        >>> import typedqax as tq
        >>> class Scaled(tq.ImplicitArray):
        ...     x: tq.ArrayValue
        ...     factor: float = tq.aux_field(default=1.0)
        ...     def materialize(self):
        ...         return self.factor * self.x
    """
    metadata = {**(options.pop("metadata", None) or {}), AUX: True}
    return dataclasses.field(metadata=metadata, **options)


def _is_hidden_member(name: str) -> bool:
    """Whether a field of this name would hide a member of arrays."""
    return not name.startswith("_") and (hasattr(jax.Array, name) or name in _OWN_MEMBERS)


_OWN_MEMBERS = frozenset(
    {
        "aval",
        "default_dtype",
        "default_shape",
        "compute_dtype",
        "compute_shape",
        "materialize",
    }
)


# --- the class -----------------------------------------------------------------------------------

if TYPE_CHECKING:
    _ArrayBase = jax.Array
else:

    class _ArrayBase:
        """Nothing at run time; to a type checker, an implicit array is a jax.Array."""

        __slots__ = ()


@dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field, aux_field))
class _Dataclass:
    """What makes each subclass of ImplicitArray a dataclass to a type checker (PEP 681)."""

    if TYPE_CHECKING:

        def __init_subclass__(
            cls,
            *,
            materialization: Policy = "warn",
            warn_on_materialize: bool = True,
            commute_ops: bool = True,
        ) -> None: ...


class _ShapeProperty:
    """`shape`, which may be given; else it is computed or derived each time it is asked for."""

    @overload
    def __get__(self, instance: None, owner: type) -> _ShapeProperty: ...
    @overload
    def __get__(self, instance: ImplicitValue, owner: type) -> tuple[int, ...]: ...
    def __get__(self, instance: ImplicitValue | None, owner: type) -> Any:
        if instance is None:
            return self
        # What was given is told without the dtype: materialize() may need the one for the other.
        shape = given_shape(instance)
        return look(instance).operand.shape if shape is None else batch_shape(instance) + shape

    def __set__(self, instance: ImplicitValue, shape: Sequence[int] | None) -> None:
        _give_shape(instance, shape)


class _DtypeProperty:
    """`dtype`, which may be given; else it is computed or derived each time it is asked for."""

    @overload
    def __get__(self, instance: None, owner: type) -> _DtypeProperty: ...
    @overload
    def __get__(self, instance: ImplicitValue, owner: type) -> np.dtype[Any]: ...
    def __get__(self, instance: ImplicitValue | None, owner: type) -> Any:
        if instance is None:
            return self
        dtype = given_dtype(instance)
        return look(instance).event.dtype if dtype is None else dtype

    def __set__(self, instance: ImplicitValue, dtype: DTypeLike | None) -> None:
        instance.__dict__["_given_dtype"] = _as_dtype(instance, dtype)


# What a type checker sees as the default of `shape=` and `dtype=`: a value of any type.
_GIVEN: Any = None


class ImplicitArray(ImplicitValue, _Dataclass, _ArrayBase, ABC):
    """An array that is stored as something else than its numbers.

    A subclass names its fields, which are the children of a pytree (arrays, dense or implicit) or
    auxiliary data (`aux_field`), and says in `materialize` which dense array it stands for. It is a
    dataclass, with or without the decorator. `use_implicit_args` lets functions take it in place of
    a dense array, and handlers say which primitives can do better than `materialize` first.

    The shape and dtype are keyword arguments `shape=` and `dtype=` of each constructor, or class
    attributes `default_shape` and `default_dtype`, or what the methods `compute_shape` and
    `compute_dtype` give, or else those of `materialize()`, evaluated abstractly. Leaves may have
    batch axes in front of those that their annotations name: vmap, scan and slices work on leaves.

    Class keywords:
        materialization: `"warn"`, `"allow"` or `"error"`: what happens when an instance becomes
            dense for want of a handler. `"error"` is for classes whose dense form loses meaning.
        warn_on_materialize: False is `materialization="allow"`.
        commute_ops: whether `primitive_handler` takes both orders of a commutative primitive.

    Raises:
        ContractError: the fields of a new instance are not what their annotations say.
        TypeError: a field would hide a member of arrays, or is not set by `__init__`.

    Example:
        >>> import jax, jax.numpy as jnp, typedqax as tq
        >>> from jaxtyping import Float
        >>> class LowRank(tq.ImplicitArray):
        ...     a: Float[tq.ArrayValue, "m r"]
        ...     b: Float[tq.ArrayValue, "n r"]
        ...     def materialize(self) -> Float[jax.Array, "m n"]:
        ...         return self.a @ self.b.T
        >>> LowRank(jnp.ones((3, 1)), jnp.ones((4, 1)))
        LowRank f32[3,4](a=f32[3,1], b=f32[4,1])
    """

    _is_dispatch_root: ClassVar[bool] = True
    _materialization_policy: ClassVar[Policy] = "warn"
    _commute_ops: ClassVar[bool] = True

    default_shape: ClassVar[tuple[int, ...] | None] = None
    default_dtype: ClassVar[DTypeLike | None] = None

    if TYPE_CHECKING:
        # Keyword arguments of every constructor.
        shape: _ShapeProperty = dataclasses.field(kw_only=True, default=_GIVEN)  # pyright: ignore[reportIncompatibleMethodOverride]  # settable, where jax.Array's is not
        dtype: _DtypeProperty = dataclasses.field(kw_only=True, default=_GIVEN)  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
    else:
        shape = _ShapeProperty()
        dtype = _DtypeProperty()

    # --- definition ---

    if not TYPE_CHECKING:
        __hash__ = None  # arrays compare by element

        def __init_subclass__(
            cls,
            *,
            materialization: Policy | None = None,
            warn_on_materialize: bool | None = None,
            commute_ops: bool | None = None,
            **keywords: Any,
        ) -> None:
            super().__init_subclass__(**keywords)
            _set_class_keywords(cls, materialization, warn_on_materialize, commute_ops)
            _refuse_hidden_members(cls)
            _refuse_text_fields(cls)
            for base in cls.__bases__:
                if issubclass(base, ImplicitArray) and base is not ImplicitArray:
                    field_names(base)
            # In the class's own dict, so that an explicit @dataclass leaves them alone.
            cls.__eq__ = cls.__eq__
            cls.__hash__ = None
            if "__repr__" not in cls.__dict__:
                cls.__repr__ = cls.__repr__
            _remember_local_names(cls)
            recheck_class(cls)

        def __new__(cls, *args: Any, **kwargs: Any) -> ImplicitArray:
            field_names(cls)  # settles the fields, and with them __init__
            return super().__new__(cls)

        def __init__(
            self, *, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None
        ) -> None:
            if shape is not None or "_given_shape" not in self.__dict__:
                _give_shape(self, shape)
            if dtype is not None or "_given_dtype" not in self.__dict__:
                self.__dict__["_given_dtype"] = _as_dtype(self, dtype)

        @classmethod
        def _settle_fields(cls) -> FieldNames:
            generated = "__init__" not in cls.__dict__
            if cls is ImplicitArray:
                return FieldNames((), ())
            if "__dataclass_fields__" in cls.__dict__:  # an explicit @dataclass
                generated = cls.__init__.__code__.co_filename == "<string>"
            else:
                inherits = generated and _inherits_written_init(cls)
                dataclasses.dataclass(eq=False, repr=False, init=not inherits)(cls)
            if "__init__" in cls.__dict__:
                cls.__init__ = _construction(cls.__init__, takes_shape=generated)
            return super()._settle_fields()

    # --- meaning ---

    @abstractmethod
    def materialize(self) -> jax.Array:
        """The dense array that this one stands for; ordinary JAX code on the fields."""

    @property
    def _kept_shape(self) -> tuple[int, ...] | None:
        """The shape that a copy by `dataclasses.replace` is given too."""
        if field_names(type(self)).children:
            shape = self.__dict__.get("_given_shape")
            return None if shape is None else batch_shape(self) + tuple(shape)
        extent = self.__dict__.get(EXTENT)
        computes = type(self).compute_shape is not ImplicitValue.compute_shape
        return None if computes or extent is None else tuple(extent.shape[:-1])

    @property
    def _kept_dtype(self) -> Any:
        """The dtype that a copy by `dataclasses.replace` is given too."""
        return self.__dict__.get("_given_dtype")

    def _materialize_under_trace(self) -> Any:
        return materialize_under_trace(self)

    @property
    def aval(self) -> ShapedArray:
        """The abstract value it stands for: shape and dtype, never weakly typed."""
        return aval_of(self)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __repr__(self) -> str:
        return _shown(self)

    if not TYPE_CHECKING:
        # numpy leaves its operators to ours: np_array + implicit runs __radd__.
        __array_ufunc__ = None
        __array_priority__ = 1000

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            return np.asarray(densify_for(self, "numpy.asarray"), dtype=dtype)

        @property
        def __jax_array__(self) -> Callable[[], jax.Array] | None:
            """What jnp functions ask for; None outside a transform, where operators work."""
            if type(_jax.current_trace()) is ImplicitTrace:
                return functools.partial(_lifted, self)
            if enclosing_trace() is not None:
                return functools.partial(densify_for, self, "an inner function")
            return None

        @property
        def at(self) -> _IndexUpdates:
            """Updated copies, as `jax.Array.at`."""
            return _IndexUpdates(self)

        def block_until_ready(self) -> ImplicitArray:
            """This array, when all that it is made of has been computed."""
            jax.block_until_ready(jax.tree.leaves(self))
            return self

        def __len__(self) -> int:
            if not self.shape:
                raise TypeError("len() of an array without axes")
            return self.shape[0]

        def __iter__(self) -> Iterator[Any]:
            return (self[index] for index in range(len(self)))

        def __reversed__(self) -> Iterator[Any]:
            return (self[index] for index in reversed(range(len(self))))

        def __bool__(self) -> bool:
            return bool(densify_for(self, "bool"))

        def __int__(self) -> int:
            return int(densify_for(self, "int"))

        def __float__(self) -> float:
            return float(densify_for(self, "float"))

        def __complex__(self) -> complex:
            return complex(densify_for(self, "complex"))

        def __index__(self) -> int:
            return densify_for(self, "index").__index__()

        def item(self, *args: int) -> Any:
            """The element at an index, as a Python scalar."""
            return densify_for(self, "item").item(*args)

        def tolist(self) -> Any:
            """The elements as nested lists."""
            return densify_for(self, "tolist").tolist()

        @property
        def nbytes(self) -> int:
            """The bytes that the dense array would have."""
            return self.size * self.dtype.itemsize

        @property
        def itemsize(self) -> int:
            """The bytes of one element of the dense array."""
            return self.dtype.itemsize


def _lifted(value: Any) -> Any:
    trace = _jax.current_trace()
    return trace.lift_made(value) if type(trace) is ImplicitTrace else materialize(value)


def is_implicit(value: object, /) -> TypeIs[ImplicitArray]:
    """Whether `value` is an implicit array.

    Inside a function that runs under `use_implicit_args`, the tracer that stands for an implicit
    array counts as one. To a type checker every implicit array is a `jax.Array`, so
    `isinstance(value, jax.Array)`, which is False at run time, does not tell.

    Example:
        >>> import jax.numpy as jnp, typedqax as tq
        >>> tq.is_implicit(jnp.ones(3))
        False
    """
    return isinstance(value, ImplicitArray)


# --- operators and methods -----------------------------------------------------------------------

# fmt: off
_TWO_SIDED = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul",
    "and", "or", "xor", "lshift", "rshift",
)

_OPERATORS = (
    *[f"__{prefix}{name}__" for name in _TWO_SIDED for prefix in ("", "r")],
    "__neg__", "__pos__", "__abs__", "__invert__", "__round__",
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__getitem__",
)

_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip",
    "compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten",
    "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat", "reshape", "round",
    "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose",
    "var", "view",
)

# fmt: on

_PROPERTIES = ("T", "mT", "real", "imag")


def _method(name: str) -> Callable[..., Any]:
    """The method of arrays, on an implicit one: as the transform of the same method."""

    def call(array: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, name)(*args, **kwargs)

    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return apply(call, (self, *args), kwargs)

    method.__name__ = call.__name__ = name
    method.__qualname__ = f"ImplicitArray.{name}"
    method.__doc__ = f"As `jax.Array.{name}`."
    return method


def _property(name: str) -> property:
    def get(array: Any, /) -> Any:
        return getattr(array, name)

    get.__name__ = name
    get.__doc__ = f"As `jax.Array.{name}`."
    return property(lambda self: apply(get, (self,), {}), doc=get.__doc__)


for _name in (*_OPERATORS, *_METHODS):
    setattr(ImplicitArray, _name, _method(_name))
for _name in _PROPERTIES:
    setattr(ImplicitArray, _name, _property(_name))


class _IndexUpdates:
    """`x.at`, which is indexed next."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> _IndexUpdate:
        return _IndexUpdate(self._array, index)


class _IndexUpdate:
    """`x.at[index]`: its methods give updated copies."""

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array, self._index = array, index

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def update(array: Any, index: Any, /, *args: Any, **kwargs: Any) -> Any:
            return getattr(array.at[index], name)(*args, **kwargs)

        return lambda *args, **kwargs: apply(update, (self._array, self._index, *args), kwargs)


# --- definition and construction -----------------------------------------------------------------


def _set_class_keywords(
    cls: Any, policy: Policy | None, warn: bool | None, commute: bool | None
) -> None:
    if policy is not None and policy not in get_args(Policy):
        text = f"materialization={policy!r} is none of {', '.join(map(repr, get_args(Policy)))}"
        refuse(class_error(cls, Problem("class", text)))
        policy = None
    if warn is not None and policy is not None:
        text = "give materialization= or warn_on_materialize=, not both"
        refuse(class_error(cls, Problem("class", text)))
    if warn is not None:
        policy = "warn" if warn else "allow"
    if policy is not None:
        cls._materialization_policy = policy
    if commute is not None:
        cls._commute_ops = commute


def _refuse_hidden_members(cls: Any) -> None:
    annotated = inspect.get_annotations(cls)
    hidden = [
        name
        for name, annotation in annotated.items()
        if _is_hidden_member(name) and "ClassVar" not in str(annotation)
    ]
    for name in hidden:
        text = "it would hide the member of arrays that has this name; rename the field"
        if name in ("shape", "dtype"):
            text += (
                ". The shape and dtype are keyword arguments of every implicit array, or class "
                "attributes default_shape and default_dtype"
            )
        refuse(field_error(cls, name, Problem("field", text), role="a field"))


def _refuse_text_fields(cls: Any) -> None:
    """Refuse text that is a leaf of the pytree; the rest is looked at when annotations have values.

    A postponed annotation has none yet: it may name what is defined further below.
    """
    for name, annotation in inspect.get_annotations(cls).items():
        default = cls.__dict__.get(name)
        if isinstance(default, dataclasses.Field) and default.metadata.get(AUX, False):
            continue
        kind = {"str": str, "bytes": bytes}.get(annotation, annotation)
        if kind in (str, bytes):
            refuse(field_error(cls, name, no_leaf_problem(name, kind.__name__)))


def _remember_local_names(cls: Any) -> None:
    """What the scope that defines `cls` has for names in postponed annotations, if any."""
    annotations = [a for a in inspect.get_annotations(cls).values() if isinstance(a, str)]
    if not annotations:
        return
    frame = sys._getframe(2)  # towards the class statement
    while frame.f_back is not None and frame.f_code.co_name in ("__new__", "__init_subclass__"):
        frame = frame.f_back  # of a metaclass, or of a subclass that has the hook too
    module = sys.modules.get(cls.__module__)
    if frame.f_locals is frame.f_globals and frame.f_globals is getattr(module, "__dict__", None):
        return
    words = set(re.findall(r"\w+", " ".join(annotations)))
    visible = {**frame.f_globals, **frame.f_locals}
    cls._defining_locals = {name: visible[name] for name in words if name in visible}


def _inherits_written_init(cls: Any) -> bool:
    """Whether `cls` adds no fields to a base whose `__init__` was written by hand."""
    if inspect.get_annotations(cls):
        return False
    for base in cls.__mro__[1:]:
        init = base.__dict__.get("__init__")
        if base is ImplicitArray or init is None:
            continue
        return getattr(init, "_is_written", False)
    return False


def _construction(init: Callable[..., None], *, takes_shape: bool) -> Callable[..., None]:
    """`init`, after whose outermost call the new instance is complete, or refused."""

    @functools.wraps(init)
    def construct(self: Any, /, *args: Any, **kwargs: Any) -> None:
        state = self.__dict__
        outermost = "_constructing" not in state
        if outermost:
            state["_constructing"] = True
        kept = {name[6:]: kwargs.pop(name) for name in _HIDDEN_FIELDS if name in kwargs}
        try:
            if takes_shape:
                given = {name: kwargs.pop(name) for name in ("shape", "dtype") if name in kwargs}
                ImplicitArray.__init__(self, **(kept | given))
            init(self, *args, **kwargs)
        finally:
            if outermost:
                del state["_constructing"]
        if outermost:
            _complete(self)

    construct.__dict__["_is_written"] = not takes_shape  # read by subclasses
    if takes_shape:
        construct.__dict__["__signature__"] = _with_shape_and_dtype(init)  # read by inspect
    return construct


def _with_shape_and_dtype(init: Callable[..., None]) -> inspect.Signature:
    signature = inspect.signature(init)
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in ("shape", "dtype")
        if name not in signature.parameters
    ]
    return signature.replace(parameters=[*signature.parameters.values(), *extra])


def _complete(value: Any) -> None:
    """Settle the shape of a new instance, and check its fields."""
    cls, state, names = type(value), value.__dict__, field_names(type(value))
    unset = [name for name in (*names.children, *names.auxiliary) if name not in state]
    for name in unset:
        if not hasattr(cls, name):
            raise TypeError(f"{cls.__name__}.__init__ does not set the field {name!r}.")
        state[name] = getattr(cls, name)
    for name in names.auxiliary:
        _check_auxiliary(cls, name, state[name])
    if names.auxiliary:
        state[EXACT] = exactness(cls, [state[name] for name in names.auxiliary])
    if "_given_shape" not in state:
        state["_given_shape"] = None
    if "_given_dtype" not in state:
        state["_given_dtype"] = None
    given = state["_given_shape"]
    if not names.children:
        state[EXTENT] = _extent(value, given)
        state["_given_shape"] = None
    elif given is not None:
        batch = batch_shape(value)
        if given[: len(batch)] != batch:
            raise ContractError(
                f"{cls.__name__}(shape={given}):",
                f"its fields have the batch axes {batch} in front of those annotated.",
                advice="Give the whole shape, batch axes first, or none.",
            )
        state["_given_shape"] = given[len(batch) :]
    if given is not None or state["_given_dtype"] is not None:
        _let_replace_keep(cls)
    check_fields(value)


def _check_auxiliary(cls: type, name: str, value: Any) -> None:
    leaves = jax.tree.leaves(value, is_leaf=is_value) if isinstance(value, tuple) else [value]
    held = [
        leaf for leaf in leaves if isinstance(leaf, (jax.Array, np.ndarray, ImplicitValue, Tracer))
    ]
    if held:
        what = "an implicit array" if isinstance(held[0], ImplicitValue) else "an array"
        raise ContractError(
            f"{cls.__name__}.{name}",
            f"is auxiliary data, but holds {what}.",
            advice="Make it a field without aux_field, so that it is a leaf; or pass a Python "
            "scalar.",
        )
    try:
        hash(value)
    except TypeError as error:
        raise ContractError(
            f"{cls.__name__}.{name}",
            f"is auxiliary data, but holds a {type(value).__name__}, which cannot be hashed.",
            advice="JAX compares and hashes auxiliary data: use a tuple, a frozenset, a frozen "
            "dataclass.",
        ) from error


def _extent(value: Any, given: tuple[int, ...] | None) -> Any:
    """The zero-byte leaf that carries the shape of a class without array fields."""
    shape = given
    if shape is None:
        shape = derive(value).shape
    if all(isinstance(size, int) for size in shape):
        return np.zeros((*shape, 0), np.float32)
    return jax.numpy.zeros((*shape, 0), jax.numpy.float32)  # symbolic sizes, in jax.export


def _give_shape(value: ImplicitValue, shape: Sequence[int] | None) -> None:
    if shape is None:
        value.__dict__["_given_shape"] = None
        return
    try:
        canonical = _jax.canonical_shape(shape)
    except TypeError as error:
        # A size by itself is known by JAX's taking it for the only axis: symbolic ones too.
        axes = _one_axis(shape)
        said = error if axes is None else f"a shape is a tuple of sizes, here shape={axes}"
        raise TypeError(f"{type(value).__name__}(shape={shape!r}): {said}") from error
    if EXTENT in value.__dict__:
        value.__dict__[EXTENT] = _extent(value, canonical)
    else:
        value.__dict__["_given_shape"] = canonical


def _one_axis(size: Any) -> str | None:
    """The shape that has one axis of this size, as it is written; None where it is no size."""
    try:
        (axis,) = _jax.canonical_shape((size,))
    except TypeError:
        return None
    return f"({axis},)"


def _as_dtype(value: ImplicitValue, dtype: DTypeLike | None) -> Any:
    if dtype is None:
        return None
    try:
        return _jax.canonical_dtype(dtype)
    except TypeError as error:
        raise TypeError(f"{type(value).__name__}(dtype={dtype!r}): {error}") from error


_HIDDEN_FIELDS = ("_kept_shape", "_kept_dtype")
_HIDDEN = object()
"""The kind of a field that `dataclasses.replace` passes on, and that nothing else looks at."""


def _let_replace_keep(cls: Any) -> None:
    """Let `dataclasses.replace` pass on a shape and dtype that were given, by hidden fields.

    What was derived is derived anew, from the fields that replace the old ones.
    """
    fields: dict[str, Any] = cls.__dict__["__dataclass_fields__"]
    if _HIDDEN_FIELDS[0] in fields:
        return
    for name in _HIDDEN_FIELDS:
        hidden: Any = dataclasses.field(default=None, kw_only=True)
        hidden.name, hidden.type, hidden._field_type = name, object, _HIDDEN
        fields[name] = hidden


# --- being shown ---------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    """Class, dtype, shape and fields, never an array's contents; it does not fail."""
    cls = type(value)
    try:
        own = _shown_aval(value)
    except Exception:  # noqa: BLE001  # a repr that raises would hide the error being shown
        own = "?"
    state = value.__dict__
    try:
        names = field_names(cls)
    except Exception:  # noqa: BLE001  # as above
        return f"{cls.__name__} {own}"
    parts = [
        f"{name}={_shown_field(state[name])}"
        for name in (*names.children, *names.auxiliary)
        if name in state
    ]
    return f"{cls.__name__} {own}({', '.join(parts)})"


def _shown_field(field: Any) -> str:
    if is_value(field):
        return repr(field)
    if is_array_like(field):
        try:
            return _shown_aval(field)
        except Exception:  # noqa: BLE001  # as above
            return type(field).__name__
    if isinstance(field, Mapping):
        return "{" + ", ".join(f"{k!r}: {_shown_field(v)}" for k, v in field.items()) + "}"
    if isinstance(field, (list, tuple)) and not hasattr(field, "_fields"):
        return f"{type(field).__name__}({', '.join(map(_shown_field, field))})"
    try:
        text = repr(field)
    except Exception:  # noqa: BLE001  # as above
        text = f"<{type(field).__name__}>"
    return text if len(text) <= 80 else f"<{type(field).__name__}>"  # a line


def _shown_aval(value: Any) -> str:
    return _jax.short_aval(tuple(value.shape), value.dtype)


# --- in the hands of JAX -------------------------------------------------------------------------


def _canonicalize(value: Any) -> Any:
    """An implicit array that lax or `bind` was given: lifted where the transform runs."""
    trace = _jax.current_trace()
    if type(trace) is ImplicitTrace:
        return trace.lift_made(value)
    if enclosing_trace() is not None:  # in an inner function that closes over it
        return densify_for(value, "an inner function")
    raise TypedQaxError(
        f"{_shown(value)} reached a JAX primitive outside use_implicit_args. Pass it as an "
        f"argument to a function wrapped in use_implicit_args; outside of one, its operators and "
        f"methods (x @ w, w.sum(), ...) and typedqax.materialize(w) work."
    )


_jax.register_canonicalizer(ImplicitValue, _canonicalize)
# What a primitive is given goes through the canonicalizer first, so that this lets nothing through.
_jax.register_aval(ImplicitValue, aval_of)
