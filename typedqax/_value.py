"""The marker class of all implicit arrays, and what can be told of a value without any handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np
from typing_extensions import TypeIs


class ImplicitValue:
    """The root that every implicit array derives from; handlers annotate `ImplicitArray`."""

    __slots__ = ()


if TYPE_CHECKING:
    ArrayValue: TypeAlias = jax.Array
else:

    class _ArrayValueMeta(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, (ImplicitValue, jax.Array, np.ndarray, np.generic))

    class ArrayValue(metaclass=_ArrayValueMeta):
        """Any array: dense (numpy's included) or implicit; for annotations and `isinstance`."""


def is_implicit(value: object) -> TypeIs[ImplicitValue]:
    """Whether `value` is an implicit array."""
    return isinstance(value, ImplicitValue)


def dispatch_root(cls: type) -> type:
    """The class that `cls` is dispatched as: `ImplicitArray` itself means any implicit array."""
    return ImplicitValue if cls.__dict__.get("_is_dispatch_root", False) else cls
