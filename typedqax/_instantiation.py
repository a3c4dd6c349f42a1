"""Instantiation: a pattern with the sizes that are bound, as an annotation that beartype checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Union

from jaxtyping import AbstractArray, AbstractDtype, Shaped

from typedqax._dims import Dims
from typedqax._dtypes import ANY_DTYPE
from typedqax._polynomial import Polynomial
from typedqax._signature import ArrayPattern, Dense
from typedqax._value import ImplicitValue

_BOTH = frozenset({Dense, ImplicitValue})


class DenseValue(type):
    """The metaclass behind the check of a dense operand."""

    def __instancecheck__(cls, value: object) -> bool:
        return not isinstance(value, ImplicitValue) and hasattr(value, "dtype")


class AnyDense(metaclass=DenseValue):
    """Any array that is not implicit: jax's, numpy's, or one of JAX's typed literals."""


class EitherValue(type):
    """The metaclass behind the check of an operand that may be dense or implicit."""

    def __instancecheck__(cls, value: object) -> bool:
        return hasattr(value, "dtype") and hasattr(value, "shape")


class AnyValue(metaclass=EitherValue):
    """Any array, dense or implicit."""


def instantiate(pattern: ArrayPattern, bindings: Mapping[str, Any]) -> Any:
    """An annotation for a type checker: the pattern with the sizes bound in place of names.

    Names that are not bound become `_`, sections that are not bound or only broadcast `...`.
    """
    classes = tuple(
        _checked_class(cls) for cls in sorted(pattern.classes, key=lambda c: c.__name__)
    )
    array: Any = AnyValue if pattern.classes == _BOTH else Union[classes]  # noqa: UP007  # built at run time
    hint: Any = array
    if pattern.dtypes != ANY_DTYPE or not pattern.dims.is_free:
        dtype: Any = Shaped
        source = pattern.source
        if isinstance(source, type) and issubclass(source, AbstractArray):
            dtype = source.dtype
            if dtype.dtypes != source.dtypes:
                dtype = type(dtype.__name__, (AbstractDtype,), {"dtypes": source.dtypes})
        hint = dtype[array, " ".join(instantiated_axes(pattern.dims, bindings))]
    return Annotated[(hint, *pattern.predicates)] if pattern.predicates else hint


def _checked_class(cls: type) -> type:
    return AnyDense if cls is Dense else cls


def instantiated_axes(dims: Dims, bindings: Mapping[str, Any]) -> list[str]:
    """The axes of `dims` as `instantiate` writes them, one text each."""
    parts = [_one_size(axis, bindings) for axis in dims.left]
    section = dims.section
    if section is not None:
        sizes = bindings.get(f"*{section.name}")
        if section.broadcast or sizes is None:
            parts.append("...")
        else:
            parts.extend(map(str, sizes))
    return parts + [_one_size(axis, bindings) for axis in dims.right]


def _one_size(axis: Any, bindings: Mapping[str, Any]) -> str:
    size = axis.size
    try:
        if isinstance(size, str):
            size = bindings[size]
        elif isinstance(size, Polynomial):
            size = size.evaluate(bindings)
    except (KeyError, ZeroDivisionError):
        return "_"
    if size is None:
        return "_"
    return f"#{size}" if axis.broadcast else str(size)
