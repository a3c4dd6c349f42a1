"""The marker class of all implicit arrays: its fields and its pytree; knows no handlers."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import jax
import numpy as np
from jax.tree_util import GetAttrKey
from typing_extensions import TypeIs

AUX = "typedqax.aux"
"""The key of a dataclass field's metadata that marks it as auxiliary data."""

EXTENT = "_extent"
"""The name of the zero-byte leaf that carries the shape of a class without array fields."""

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


class ImplicitValue:
    """The root that every implicit array derives from; handlers annotate `ImplicitArray`.

    An instance keeps, beside its fields, the shape (without batch axes) and dtype it was given, and
    for a class without array fields the leaf `EXTENT`, of shape `shape + (0,)`: transformations of
    JAX act on leaves alone, and this one makes them see the shape.
    """

    _field_names: ClassVar[FieldNames | None] = None
    _given_shape: tuple[int, ...] | None
    _given_dtype: np.dtype[Any] | None

    def _materialize_under_trace(self) -> Any:
        """`materialize()`, with the implicit fields as they are inside the transform."""
        raise NotImplementedError

    @classmethod
    def _finalize_class(cls) -> FieldNames:
        """The class's fields, settled at its first use.

        An explicit `@dataclass` comes later than `__init_subclass__`: nothing can be settled there.
        """
        names = cls.__dict__.get("_field_names")
        if names is None:
            with _finalizing:
                names = cls.__dict__.get("_field_names")
                if names is None:
                    names = cls._settle_fields()
                    cls._field_names = names
        return names

    @classmethod
    def _settle_fields(cls) -> FieldNames:
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # subclasses are dataclasses
        return FieldNames(
            tuple(f.name for f in fields if not f.metadata.get(AUX, False)),
            tuple(f.name for f in fields if f.metadata.get(AUX, False)),
        )


def field_names(cls: type[ImplicitValue]) -> FieldNames:
    """Which fields of `cls` are children and which are auxiliary."""
    return cls.__dict__.get("_field_names") or cls._finalize_class()


def register_pytree(cls: type[ImplicitValue]) -> None:
    """Make `cls` a pytree whose key paths name the fields; unflattening never validates."""

    def children(value: ImplicitValue) -> tuple[Any, ...]:
        state, names = value.__dict__, field_names(cls).children
        return tuple([state.get(name) for name in names]) if names else (state.get(EXTENT),)

    def flatten(value: ImplicitValue) -> tuple[tuple[Any, ...], Hashable]:
        return children(value), auxiliary_data(value)

    def flatten_with_keys(
        value: ImplicitValue,
    ) -> tuple[Iterable[tuple[GetAttrKey, Any]], Hashable]:
        names = field_names(cls).children or ("shape",)
        keys = [GetAttrKey(name) for name in names]
        return tuple(zip(keys, children(value), strict=True)), auxiliary_data(value)

    def unflatten(auxiliary: Any, leaves: Iterable[Any]) -> ImplicitValue:
        value: ImplicitValue = object.__new__(cls)
        names = field_names(cls)
        state = value.__dict__
        state["_given_shape"], state["_given_dtype"], rest = auxiliary
        state.update(zip(names.auxiliary, rest, strict=True))
        state.update(zip(names.children or (EXTENT,), leaves, strict=True))
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)


def auxiliary_data(value: ImplicitValue) -> tuple[Any, ...]:
    """What of `value` JAX compares and hashes: its given shape and dtype, and its aux fields."""
    state = value.__dict__
    return (
        state.get("_given_shape"),
        state.get("_given_dtype"),
        tuple([state.get(name) for name in field_names(type(value)).auxiliary]),
    )


def child_values(value: ImplicitValue) -> tuple[tuple[str, Any], ...]:
    """The names and values of the fields that hold arrays, in their order."""
    state = value.__dict__
    return tuple([(name, state.get(name)) for name in field_names(type(value)).children])


V = TypeVar("V", bound=ImplicitValue)


def with_children(value: V, children: dict[str, Any]) -> V:
    """A copy of `value` with these fields in place of its own; nothing is checked."""
    copy: V = object.__new__(type(value))
    copy.__dict__.update(value.__dict__)
    copy.__dict__.update(children)
    return copy


if TYPE_CHECKING:
    ArrayValue: TypeAlias = jax.Array
else:

    class _ArrayValueMeta(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, (ImplicitValue, jax.Array, np.ndarray, np.generic))

    class ArrayValue(metaclass=_ArrayValueMeta):
        """Any array: dense (numpy's included) or implicit; for annotations and `isinstance`."""


def is_value(value: object) -> TypeIs[ImplicitValue]:
    """Whether `value` is an implicit array itself, not a tracer that stands for one."""
    return issubclass(type(value), ImplicitValue)


def dispatch_root(cls: type) -> type:
    """The class that `cls` is dispatched as: `ImplicitArray` itself means any implicit array."""
    return ImplicitValue if cls.__dict__.get("_is_dispatch_root", False) else cls
