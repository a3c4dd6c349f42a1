"""The type hints of a function, evaluated in the scopes in which it was written."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ForwardRef


class UnresolvedHintError(Exception):
    """An annotation that cannot be evaluated where the function was written.

    Attributes:
        parameter: whose annotation it is; `"return"` for the result's.
        annotation: what was written.
        reason: why it has no value.
        valued: whether each name in it has one, so that it is the text of a shape that is wrong.
    """

    def __init__(self, parameter: str, annotation: str, reason: str, *, valued: bool) -> None:
        super().__init__(parameter, annotation, reason)
        self.parameter, self.annotation, self.reason = parameter, annotation, reason
        self.valued = valued


def type_hints(function: Callable[..., Any]) -> dict[str, object]:
    """The annotations of `function` as objects, as `read_hints` gives them.

    Raises:
        UnresolvedHintError: a name in an annotation means nothing there.
    """
    hints, unresolved = read_hints(function)
    if unresolved:
        raise unresolved[0]
    return hints


def read_hints(
    function: Callable[..., Any], *, without: Sequence[str] = ()
) -> tuple[dict[str, object], list[UnresolvedHintError]]:
    """The annotations of `function` as objects, and those that have no value.

    Forward references are replaced. The annotations of the parameters `without` are left out.

    Names are looked up as in the function's body: what it closes over, the scopes that enclose
    its definition as far as they are still running (a class made in the same function, while
    that function declares the handler), then its module. Decorators are looked through.
    """
    written: dict[str, object] = {
        name: annotation
        for name, annotation in getattr(function, "__annotations__", {}).items()
        if name not in without
    }
    if not any(_is_postponed(each) for each in written.values()):
        return written, []
    # A decorator, such as jaxtyping's under its import hook, is of another module.
    undecorated = inspect.unwrap(function)
    namespace: dict[str, Any] = getattr(undecorated, "__globals__", {})
    enclosing = _enclosing_names(undecorated)
    hints: dict[str, object] = {}
    unresolved = []
    for name, annotation in written.items():
        try:
            hints[name] = _evaluated(name, annotation, namespace, enclosing)
        except UnresolvedHintError as error:
            unresolved.append(error)
    return hints, unresolved


def _is_postponed(annotation: object) -> bool:
    """Whether a string or a forward reference is left somewhere in `annotation`."""
    if isinstance(annotation, (str, ForwardRef)):
        return True
    if typing.get_origin(annotation) is typing.Literal:
        return False
    return any(_is_postponed(each) for each in _type_arguments(annotation))


def _type_arguments(annotation: object) -> tuple[object, ...]:
    arguments = typing.get_args(annotation)
    # Annotated[X, "..."]: what follows X is data, whatever it looks like.
    return arguments[:1] if typing.get_origin(annotation) is typing.Annotated else arguments


def _evaluated(
    name: str, annotation: object, namespace: dict[str, Any], enclosing: dict[str, Any]
) -> object:
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    try:
        hints: dict[str, object] = typing.get_type_hints(
            holder, globalns=namespace, localns=enclosing, include_extras=True
        )
    except Exception as error:
        # Whatever evaluating a user's annotation raises (NameError of a misspelt or local
        # name, TypeError of jaxtyping, SyntaxError) is one finding: it has no meaning.
        shown = annotation if isinstance(annotation, str) else str(annotation)
        reason = f"{type(error).__name__}: {error}"
        valued = isinstance(error, ValueError)  # jaxtyping's, of axes
        raise UnresolvedHintError(name, shown, reason, valued=valued) from error
    return hints[name]


def _enclosing_names(function: Callable[..., Any]) -> dict[str, Any]:
    """What the scopes around the definition of `function` call by name, innermost winning."""
    names: dict[str, Any] = {}
    for frame in reversed(list(_enclosing_frames(function))):
        names.update(frame.f_locals)
    code = getattr(function, "__code__", None)
    for name, cell in zip(
        code.co_freevars if code else (), getattr(function, "__closure__", None) or (), strict=False
    ):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # the enclosing function has not assigned it yet
            continue
    return names


def _enclosing_frames(function: Callable[..., Any]) -> Iterator[types.FrameType]:
    """The frames, still running, of the functions and class bodies that enclose `function`."""
    scopes = _enclosing_scopes(getattr(function, "__qualname__", ""))
    namespace = getattr(function, "__globals__", None)
    frame: types.FrameType | None = sys._getframe(1) if scopes else None  # frames are the scopes
    while frame is not None:
        if frame.f_globals is namespace and frame.f_code.co_qualname in scopes:
            yield frame
        frame = frame.f_back


def _enclosing_scopes(qualname: str) -> frozenset[str]:
    """The qualified names of what encloses `qualname`: `f`, `f.<locals>.C` for `f.<locals>.C.g`."""
    parts = qualname.split(".")[:-1]
    return frozenset(
        ".".join(parts[: end + 1]) for end, part in enumerate(parts) if part != "<locals>"
    )
