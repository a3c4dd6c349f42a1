"""How an implicit array is shown: class, dtype, shape and fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typedqax import _jax
from typedqax._aval import is_array_like
from typedqax._value import field_names, is_value


def shown(value: Any) -> str:
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
