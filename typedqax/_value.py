"""The marker class of all implicit arrays: its fields and its pytree; knows no handlers."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import jax
import numpy as np
from jax.tree_util import FlattenedIndexKey, GetAttrKey
from jax.typing import DTypeLike
from typing_extensions import TypeIs

AUX = "typedqax.aux"
"""The key of a dataclass field's metadata that marks it as auxiliary data."""

EXTENT = "_extent"
"""The name of the zero-byte leaf that carries the shape of a class without array fields."""

EXACT = "_exact"
"""The name of what tells auxiliary data apart that Python calls equal: 1 and 1.0, 0.0 and -0.0."""

_finalizing = threading.RLock()


@dataclasses.dataclass(frozen=True, slots=True)
class FieldNames:
    """Which fields of an implicit class are children of its pytree, and which are auxiliary.

    Attributes:
        children: fields that hold arrays, dense or implicit.
        auxiliary: fields that are compared and hashed, and never hold arrays.
    """

    children: tuple[str, ...]
    auxiliary: tuple[str, ...]

    @property
    def stored_auxiliary(self) -> tuple[str, ...]:
        """The names of all auxiliary data, the given shape and dtype first."""
        exact = (EXACT,) if self.auxiliary else ()
        return ("_given_shape", "_given_dtype", *exact, *self.auxiliary)


class ImplicitValue:
    """The root that every implicit array derives from; handlers annotate `ImplicitArray`.

    An instance keeps, beside its fields, the shape (without batch axes) and dtype it was given, and
    for a class without array fields the leaf `EXTENT`, of shape `shape + (0,)`: transformations of
    JAX act on leaves alone, and this one makes them see the shape.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    _field_names: ClassVar[FieldNames | None] = None
    _superseded: ClassVar[bool] = False
    # What a class has shown so far, each read from its own dict by the module that remembers it.
    _usual_kinds: ClassVar[Any]
    _field_layouts: ClassVar[Any]
    _seen: ClassVar[Any]
    _splits: ClassVar[Any]
    _accepted_fields: ClassVar[Any]
    _materialize_result: ClassVar[Any]

    _given_shape: tuple[int, ...] | None
    _given_dtype: np.dtype[Any] | None

    def compute_shape(self) -> tuple[int, ...]:
        """The shape, from fields without batch axes; for a subclass to define."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute_shape")

    def compute_dtype(self) -> DTypeLike:
        """The dtype, from the fields; for a subclass to define."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute_dtype")

    def _materialize_under_trace(self) -> Any:
        """`materialize()`, with the implicit fields as they are inside the transform."""
        raise NotImplementedError

    @classmethod
    def _finalize_class(cls) -> FieldNames:
        """The class's fields, settled at its first use, when it becomes a pytree too.

        An explicit `@dataclass` comes later than `__init_subclass__`: nothing can be settled there.
        """
        names = cls.__dict__.get("_field_names")
        if names is None:
            with _finalizing:
                names = cls.__dict__.get("_field_names")
                if names is None:
                    names = cls._settle_fields()
                    _register_pytree(cls, names)
                    cls._field_names = names
        return names

    @classmethod
    def _settle_fields(cls) -> FieldNames:
        fields = dataclasses.fields(cls)
        return FieldNames(
            tuple(f.name for f in fields if not f.metadata.get(AUX, False)),
            tuple(f.name for f in fields if f.metadata.get(AUX, False)),
        )


def field_names(cls: type[ImplicitValue]) -> FieldNames:
    """Which fields of `cls` are children and which are auxiliary."""
    return cls.__dict__.get("_field_names") or cls._finalize_class()


def implicit_classes() -> list[type[ImplicitValue]]:
    """Every implicit class that exists, the order being that of names."""
    found: dict[type[ImplicitValue], None] = {}
    waiting = list(ImplicitValue.__subclasses__())
    while waiting:
        cls = waiting.pop()
        if cls not in found:
            found[cls] = None
            waiting += cls.__subclasses__()
    return sorted(found, key=lambda cls: (cls.__module__, cls.__qualname__))


def _register_pytree(cls: type[ImplicitValue], fields: FieldNames) -> None:
    """Make `cls` a pytree whose key paths name the fields; unflattening never validates."""
    leaf_names, auxiliary_names = fields.children or (EXTENT,), fields.stored_auxiliary
    flatten = _flattener(leaf_names, auxiliary_names)
    keys = [GetAttrKey(name) for name in fields.children or ("shape",)]
    names = leaf_names + auxiliary_names

    def flatten_with_keys(
        value: ImplicitValue,
    ) -> tuple[Iterable[tuple[Any, Any]], Hashable]:
        leaves, auxiliary = flatten(value)
        names = [_ONE_KEY] if type(auxiliary) is One else keys
        return tuple(zip(names, leaves, strict=True)), auxiliary

    def unflatten(auxiliary: Any, leaves: Iterable[Any]) -> Any:
        if type(auxiliary) is One:
            return auxiliary.put_together(*leaves)
        value: ImplicitValue = object.__new__(cls)
        set_state(value, dict(zip(names, (*leaves, *auxiliary), strict=True)))
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


Flattened: TypeAlias = tuple[tuple[Any, ...], Hashable]
"""The leaves and the auxiliary data of a value."""


def _flattener(
    leaf_names: tuple[str, ...], auxiliary_names: tuple[str, ...]
) -> Callable[[ImplicitValue], Flattened]:
    """What reads the leaves and the auxiliary data of a value that has these names.

    JAX flattens the arguments of a compiled function at every call, so this is what such a call
    costs beside a class that was registered by hand (tests/benchmarks/warm_call.py). Python reads
    attributes fastest where code names them, so the code is written here, as `dataclasses` writes
    its methods; the names are a class's, hence identifiers.
    """

    def while_made(value: ImplicitValue) -> Flattened:
        known = {**dict.fromkeys((*leaf_names, *auxiliary_names)), **value.__dict__}
        return tuple(map(known.get, leaf_names)), tuple(map(known.get, auxiliary_names))

    def listed(names: tuple[str, ...]) -> str:
        return "".join(f"value.{name}, " for name in names)

    written = f"""
def flatten(value):
    if one_leaf_asked and (one := one_leaf(value)) is not None:
        return one
    try:
        return ({listed(leaf_names)}), ({listed(auxiliary_names)})
    except AttributeError:
        return while_made(value)
"""
    names: dict[str, Any] = {
        "one_leaf_asked": one_leaf_asked,
        "one_leaf": _one_leaf,
        "while_made": while_made,
    }
    exec(compile(written, __file__, "exec"), names)  # a frame of it is one of this module
    flatten: Callable[[ImplicitValue], Flattened] = names["flatten"]
    return flatten


# --- as one array, in functions under the transform ----------------------------------------------


one_leaf_asked: list[Callable[[ImplicitValue], Flattened | None]] = []
"""What flattens a value into the one array that it stands for, in this thread; None for its fields.

It is here as often as functions under the transform run now, in any thread: while none does,
nothing is asked.
"""


class One:
    """The auxiliary data of an implicit array that was flattened into the one array it stands for.

    All are equal: they say nothing of the array.

    Attributes:
        fields: its structure as a pytree of fields, if it was flattened for whoever walks a tree.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: Any = None) -> None:
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return type(other) is One

    def __hash__(self) -> int:
        return hash(One)

    def __repr__(self) -> str:
        return "one array"

    def put_together(self, one: Any) -> Any:
        """What stands for the array with `one` in its place: that itself.

        A truth value is put in place of each field: such a mask, as packages make them that take
        trees apart and put them together again (equinox), is looked at beside the array.
        """
        if self.fields is None or not isinstance(one, (bool, np.bool_)):
            return one
        return jax.tree.unflatten(self.fields, [one] * self.fields.num_leaves)


_ONE_KEY = FlattenedIndexKey(0)


def _one_leaf(value: ImplicitValue) -> Flattened | None:
    for one_leaf in one_leaf_asked[-1:]:  # another thread's function may have ended meanwhile
        return one_leaf(value)
    return None


# --- fields and auxiliary data -------------------------------------------------------------------


def exactness(cls: type[ImplicitValue], values: Sequence[Any]) -> Any:
    """What beside their equality makes these auxiliary data different from others of `cls`.

    JAX compares auxiliary data by `==`, and would run what it compiled for 1 on 1.0. None is for
    the types that the class met first, so that nothing is compared in the common case.
    """
    kinds = tuple([_kind(value) for value in values])
    usual = cls.__dict__.get("_usual_kinds")
    if usual is None:
        cls._usual_kinds = kinds
        return None
    return None if kinds == usual else kinds


def _kind(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return (float, math.copysign(1.0, value)) if value == 0 else float
    if kind is complex:
        return (complex, _kind(value.real), _kind(value.imag))
    if kind is tuple:
        return (kind, *[_kind(item) for item in value])
    if kind is frozenset:
        return (kind, frozenset([_kind(item) for item in value]))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return (kind, *[_kind(getattr(value, each.name)) for each in fields])
    return kind


def auxiliary_data(value: ImplicitValue) -> tuple[Any, ...]:
    """What of `value` JAX compares and hashes: its given shape and dtype, and its aux fields."""
    state = value.__dict__
    return tuple([state.get(name) for name in field_names(type(value)).stored_auxiliary])


def child_values(value: ImplicitValue) -> tuple[tuple[str, Any], ...]:
    """The names and values of the fields that hold arrays, in their order."""
    state = value.__dict__
    return tuple([(name, state.get(name)) for name in field_names(type(value)).children])


V = TypeVar("V", bound=ImplicitValue)


def with_children(value: V, children: dict[str, Any]) -> V:
    """A copy of `value` with these fields in place of its own; nothing is checked."""
    copy: V = object.__new__(type(value))
    set_state(copy, {**value.__dict__, **children})
    return copy


def set_state(value: ImplicitValue, state: dict[str, Any]) -> None:
    """Make `state` what `value` holds.

    A dict of its own is read faster by code that names attributes than one that shares its keys
    with those of other instances, as Python makes them.
    """
    object.__setattr__(value, "__dict__", state)


def extent(shape: tuple[Any, ...], dtype: DTypeLike) -> Any:
    """The leaf `EXTENT` of an array of this shape."""
    if all(isinstance(size, int) for size in shape):
        return np.zeros((*shape, 0), dtype)
    return jax.numpy.zeros((*shape, 0), dtype)  # symbolic sizes, in jax.export


if TYPE_CHECKING:
    ArrayValue: TypeAlias = jax.Array
else:

    class _ArrayValueMeta(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, (ImplicitValue, jax.Array, np.ndarray, np.generic))

    class ArrayValue(metaclass=_ArrayValueMeta):
        """Any array: dense (numpy's included) or implicit; for annotations and `isinstance`.

        Example:
            >>> import numpy as np, typedqax as tq
            >>> from typedqax.arrays import Eye
            >>> [isinstance(each, tq.ArrayValue) for each in (np.ones(3), Eye(3), 3.0)]
            [True, True, False]
        """


def is_value(value: object) -> TypeIs[ImplicitValue]:
    """Whether `value` is an implicit array itself, not a tracer that stands for one."""
    return issubclass(type(value), ImplicitValue)


def dispatch_root(cls: type) -> type:
    """The class that `cls` is dispatched as: `ImplicitArray` itself means any implicit array."""
    return ImplicitValue if cls.__dict__.get("_is_dispatch_root", False) else cls
