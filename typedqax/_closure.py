"""What a function closes over: whether an implicit array, or a tracer, is among it."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

_MOST_LOOKED_AT = 500
"""As many objects are looked at: a call must not take longer for what is around its function."""


def closes_over(wanted: Callable[[object], bool], *functions: object) -> bool:
    """Whether something `wanted` is among what these functions name, or what hangs on that.

    It is looked for in the variables and globals that they and their inner functions name, in the
    functions among them, and in containers and attributes. What is further away than some hundred
    objects is not found.
    """
    waiting: list[object] = [*functions]
    seen: dict[int, object] = {}  # with the objects, so that no two have the same id
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            break
        found = waiting.pop()
        if wanted(found):
            return True
        if isinstance(found, _PLAIN) or id(found) in seen:
            continue
        seen[id(found)] = found
        waiting += _next_to(found)
    return False


_PLAIN = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    np.ndarray,
    np.generic,
    np.dtype,
    jax.Array,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
)


def _next_to(found: object) -> Iterable[object]:
    """The objects that `found` holds or names."""
    if isinstance(found, types.FunctionType):
        return _named_by(found)
    if isinstance(found, types.MethodType):
        return (found.__func__, found.__self__)
    if isinstance(found, functools.partial):
        return (found.func, *found.args, *found.keywords.values())
    if isinstance(found, Mapping):
        return list(found.values())
    if isinstance(found, (list, tuple, set, frozenset)):
        return found
    state = getattr(found, "__dict__", {})
    return [state["__wrapped__"]] if "__wrapped__" in state else list(state.values())


_WITHOUT_ARRAYS = frozenset({"jax", "numpy", "typedqax"})
"""The packages whose globals are no arrays; what their functions wrap is a user's."""


def _named_by(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from function.__dict__.values()  # `__wrapped__`
    package, _, _ = function.__globals__.get("__name__", "").partition(".")
    waiting: list[Any] = [] if package in _WITHOUT_ARRAYS else [function.__code__]
    while waiting:
        code = waiting.pop()
        yield from [function.__globals__[n] for n in code.co_names if n in function.__globals__]
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
