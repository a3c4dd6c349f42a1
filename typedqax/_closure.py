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

import numpy as np

from typedqax._jax import CONCRETE_ARRAY, Tracer

_MOST_LOOKED_AT = 500
"""As many objects are looked at: a call must not take longer for what is around its function."""


def closes_over(wanted: Callable[[object], bool], *functions: object) -> bool | None:
    """Whether something `wanted` is among what these functions name, or what hangs on that.

    It is looked for in the variables and globals that they and their inner functions name, in the
    functions, classes and modules among them, and in containers and attributes. The globals of
    packages that are installed are left out. None is for what has more to it than some hundred
    objects, if it is not among those. What an object says of its class, its iteration and its
    attributes is not asked: that is code of the user's, which may fail, or load what it holds.
    """
    waiting: collections.deque[object] = collections.deque(functions)  # what is nearest first
    seen: dict[int, object] = {}  # with the objects, so that no two have the same id
    for _ in range(_MOST_LOOKED_AT):
        if not waiting:
            return False
        found = waiting.popleft()
        if wanted(found):
            return True
        if issubclass(type(found), _PLAIN) or id(found) in seen:
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
    Tracer,
    CONCRETE_ARRAY,
    types.ModuleType,  # what is named of it is looked at where it is named
    types.BuiltinFunctionType,
)
_CONTAINERS: tuple[Any, ...] = (list, tuple, set, frozenset, collections.deque)


def _next_to(found: Any) -> Iterable[object]:
    """The objects that `found` holds or names."""
    kind = type(found)
    if kind is types.FunctionType:
        return _named_by(found)
    if kind is types.MethodType:
        return (found.__func__, found.__self__)
    if kind is functools.partial:
        return (found.func, *found.args, *found.keywords.values())
    for container in _CONTAINERS:
        if issubclass(kind, container):
            contained: Iterator[object] = container.__iter__(found)
            return contained
    if issubclass(kind, dict):
        return dict.values(found)
    if kind is types.MappingProxyType:
        held: list[object] = gc.get_referents(found)
        return held
    if kind is property:
        return (found.fget, found.fset)
    if kind in (staticmethod, classmethod):
        return (found.__func__,)
    if issubclass(kind, type):
        return [] if _is_of_installed(found) else [*vars(found).values(), *found.__bases__]
    state = _state_of(found)
    if "__wrapped__" in state:  # with what was wrapped, the rules of one that has its own
        return [each for each in state.values() if callable(each)]
    return (kind, *state.values(), *_slots_of(found))


def _state_of(found: object) -> Mapping[str, object]:
    for cls in type(found).__mro__:
        described = vars(cls).get("__dict__")
        if described is not None:
            plain = type(described) in (types.GetSetDescriptorType, types.MemberDescriptorType)
            state: Mapping[str, object] = described.__get__(found) if plain else {}
            return state
    return {}


def _slots_of(found: object) -> Iterator[object]:
    for cls in type(found).__mro__:
        for described in vars(cls).values():
            if type(described) is types.MemberDescriptorType:
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
    waiting: list[Any] = [] if _is_installed(function.__code__.co_filename) else [function.__code__]
    while waiting:
        code = waiting.pop()
        yield from _named_in(function.__globals__, code.co_names)
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]


def _named_in(variables: dict[str, object], names: Iterable[str]) -> Iterator[object]:
    """What is known by these names in a module, and in the modules among that."""
    waiting = [variables]
    seen: set[int] = set()
    while waiting:
        known = waiting.pop()
        for name in names:
            found = dict.get(known, name)
            if type(found) is not types.ModuleType:  # one of another type may load itself only now
                yield found
            elif id(found) not in seen and not _is_installed(vars(found).get("__file__")):
                seen.add(id(found))
                waiting.append(vars(found))


_INSTALLED = tuple(
    {sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def _is_installed(path: object) -> bool:
    """Whether a file is one of an installed package, or of Python itself."""
    return type(path) is str and path.startswith((*_INSTALLED, "<frozen "))


_module_of: Any = vars(type)["__module__"]  # not what a metaclass says


def _is_of_installed(cls: type) -> bool:
    """Whether a class is one of an installed package, or of Python itself."""
    name = _module_of.__get__(cls)
    module = sys.modules.get(name) if type(name) is str else None
    return name in sys.builtin_module_names or (
        type(module) is types.ModuleType and _is_installed(vars(module).get("__file__"))
    )
