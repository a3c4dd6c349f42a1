"""What a function closes over: whether an implicit array, or a tracer, is among it."""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

_MOST_LOOKED_AT = 500
"""As many objects are looked at: a call must not take longer for what is around its function."""


def closes_over(wanted: Callable[[object], bool], *functions: object) -> bool | None:
    """Whether something `wanted` is among what these functions name, or what hangs on that.

    It is looked for in the variables and globals that they and their inner functions name, in the
    functions, classes and modules among them, and in containers and attributes. The globals of
    packages that are installed are left out. None is for what has more to it than some hundred
    objects, if it is not among those. What classes say of their iteration and attributes is not
    asked: that would be code of the user's, which may load what it holds.
    """
    waiting: list[object] = [*functions]
    seen: dict[int, object] = {}  # with the objects, so that no two have the same id
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            return False
        found = waiting.pop()
        if wanted(found):
            return True
        if isinstance(found, _PLAIN) or id(found) in seen:
            continue
        seen[id(found)] = found
        waiting += itertools.islice(_next_to(found), _MOST_LOOKED_AT)  # a list may have millions
    return None


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
    types.ModuleType,  # what is named of it is looked at where it is named
    types.BuiltinFunctionType,
)
_CONTAINERS: tuple[Any, ...] = (list, tuple, set, frozenset, collections.deque)


def _next_to(found: object) -> Iterable[object]:
    """The objects that `found` holds or names."""
    if isinstance(found, types.FunctionType):
        return _named_by(found)
    if isinstance(found, types.MethodType):
        return (found.__func__, found.__self__)
    if isinstance(found, functools.partial):
        return (found.func, *found.args, *found.keywords.values())
    for container in _CONTAINERS:
        if isinstance(found, container):
            contained: Iterator[object] = container.__iter__(found)
            return contained
    if isinstance(found, dict):
        return dict.values(found)
    if isinstance(found, types.MappingProxyType):
        held: list[object] = gc.get_referents(found)
        return held
    if isinstance(found, property):
        return (found.fget, found.fset)
    if isinstance(found, (staticmethod, classmethod)):
        return (found.__func__,)
    if isinstance(found, type):
        return [] if _is_installed(found.__module__) else [*vars(found).values(), *found.__bases__]
    state = _state_of(found)
    if "__wrapped__" in state:
        return (state["__wrapped__"],)
    return (type(found), *state.values(), *_slots_of(found))


def _state_of(found: object) -> Mapping[str, object]:
    try:
        state: Mapping[str, object] = object.__getattribute__(found, "__dict__")
    except AttributeError:
        return {}
    return state


def _slots_of(found: object) -> Iterator[object]:
    for cls in type(found).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            described = vars(cls).get(name)
            if isinstance(described, types.MemberDescriptorType):
                try:
                    yield described.__get__(found)
                except AttributeError:  # not assigned yet
                    continue


def _named_by(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from function.__dict__.values()  # `__wrapped__`
    waiting: list[Any] = (
        [] if _is_file_installed(function.__code__.co_filename) else [function.__code__]
    )
    while waiting:
        code = waiting.pop()
        yield from _named_in(function.__globals__, code.co_names)
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]


def _named_in(variables: Mapping[str, object], names: Iterable[str]) -> Iterator[object]:
    """What is known by these names in a module, and in the modules among that."""
    waiting: list[Mapping[str, object]] = [variables]
    seen: list[object] = []
    while waiting:
        known = waiting.pop()
        for name in names:
            found = known.get(name)
            if not isinstance(found, types.ModuleType):
                yield found
            elif found not in seen and not _is_installed(found.__name__):
                seen.append(found)
                waiting.append(vars(found))


_INSTALLED = tuple(
    {sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def _is_file_installed(path: str) -> bool:
    return path.startswith((*_INSTALLED, "<frozen "))


def _is_installed(module: str) -> bool:
    """Whether a module is one of an installed package, or of Python itself."""
    path = getattr(sys.modules.get(module), "__file__", None)
    return module in sys.builtin_module_names or (path is not None and _is_file_installed(path))
