"""Patterns read from annotations: the only reader of jaxtyping's and beartype's objects."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import jax
import numpy as np
from beartype.vale import Is
from jax.core import Tracer
from jaxtyping import AbstractArray, AbstractDtype, Shaped

from typedqax._declined import Declined
from typedqax._dims import ANY_SHAPE, AnnotationError, parse_dims
from typedqax._dtypes import ANY_DTYPE, DtypeSet, dtype_set
from typedqax._polynomial import names_of
from typedqax._signature import ArrayPattern, Dense, Form, Parameter, Predicate, Signature
from typedqax._value import ArrayValue, ImplicitValue, dispatch_root

__all__ = [
    "AnnotationError",
    "ResultPattern",
    "event_rank",
    "field_patterns",
    "no_leaf",
    "operand_patterns",
    "result_patterns",
    "signature_of",
]

_DENSE = frozenset({Dense})
_BOTH = frozenset({Dense, ImplicitValue})
_NEVER_SEEN: tuple[type, ...] = (np.ndarray, np.generic, bool, int, float, complex)
_SHAPED_DTYPES = cast("type[AbstractDtype]", Shaped).dtypes
_VALIDATOR: type = type(Is[lambda value: True])
_UNIONS = (Union, types.UnionType)

ParameterFacts: TypeAlias = tuple[str, object, int, bool]
"""Name, annotation (resolved), kind (of `inspect.Parameter`), and whether it has a default."""


# --- one annotation -------------------------------------------------------------------------


def operand_patterns(annotation: object) -> tuple[ArrayPattern, ...]:
    """What the annotation allows an operand to be: the members of its union, one if it is none.

    Raises:
        AnnotationError: it means nothing on an operand.
    """
    return _patterns(annotation, _DENSE)


def _patterns(annotation: object, array: frozenset[type]) -> tuple[ArrayPattern, ...]:
    """The alternatives, where `jax.Array` stands for the classes `array`."""
    annotation = _unaliased(annotation)
    if annotation in (Any, object, inspect.Parameter.empty) or annotation is ArrayValue:
        return (ArrayPattern(_BOTH, source=annotation, text=_text(annotation)),)
    if annotation is None or annotation is types.NoneType:
        raise AnnotationError("None is allowed, but an operand is never None", "leave None out")
    if isinstance(annotation, str | typing.ForwardRef):
        raise AnnotationError(
            f"the annotation {annotation!r} is a string that was not resolved",
            "make the name it refers to known where the handler is declared",
        )
    if isinstance(annotation, TypeVar):
        return _type_variable(annotation, array)
    origin = get_origin(annotation)
    if origin in _UNIONS:
        return _union(get_args(annotation), array)
    if origin is Annotated:
        base, *metadata = get_args(annotation)
        predicates = tuple(cast("Predicate", m) for m in metadata if isinstance(m, _VALIDATOR))
        return tuple(
            replace(
                pattern,
                predicates=(*pattern.predicates, *predicates),
                text=_text(annotation),
            )
            for pattern in _patterns(base, array)
        )
    if origin is Literal:
        raise AnnotationError(
            f"{_text(annotation)} is a value, and dispatch sees class, dtype and shape only",
            "annotate the array, or make it a keyword-only param",
        )
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        return (_jaxtyping(annotation, array),)
    if isinstance(annotation, type) and origin is None:
        return (
            ArrayPattern(_classes(annotation, array), source=annotation, text=_text(annotation)),
        )
    raise _erased(annotation, origin)


def _erased(annotation: object, origin: object) -> AnnotationError:
    text = _text(annotation)
    if isinstance(origin, type) and issubclass(origin, ImplicitValue):
        return AnnotationError(
            f"{text} is erased at run time: every {origin.__name__} would be accepted",
            f"write {origin.__name__}, or a subclass for each case",
        )
    if "PyTree" in text:
        return AnnotationError(f"{text} is a PyTree", "an operand is one array: annotate that")
    if origin is not None:
        return AnnotationError(
            f"{text} is erased at run time and an operand is one array",
            "annotate one array; for any number of operands write *args",
        )
    return AnnotationError(f"{text} is not a dispatch class", _CLASSES)


_CLASSES = (
    "annotate jax.Array, a subclass of ImplicitArray, ArrayValue or a jaxtyping annotation "
    "of one of them"
)


def _unaliased(annotation: Any) -> object:
    """What a type alias or a NewType stands for."""
    while True:
        if hasattr(annotation, "__value__") and type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        else:
            return annotation


def _type_variable(variable: TypeVar, array: frozenset[type]) -> tuple[ArrayPattern, ...]:
    constraints = variable.__constraints__
    if not constraints:
        bound = Any if variable.__bound__ is None else variable.__bound__
        return tuple(
            replace(pattern, text=variable.__name__) for pattern in _patterns(bound, array)
        )
    return tuple(
        replace(
            pattern,
            choices=(*pattern.choices, (variable, which)),
            source=constraint,
            text=variable.__name__,
        )
        for which, constraint in enumerate(constraints)
        for pattern in _patterns(constraint, array)
    )


def _union(members: Sequence[object], array: frozenset[type]) -> tuple[ArrayPattern, ...]:
    """The members' patterns; numpy's and Python's scalars are dense, so an Array says it all."""
    found: list[ArrayPattern] = []
    dropped: list[object] = []
    for member in members:
        if _array_type(member) in _NEVER_SEEN or _is_numpy_scalar(_array_type(member)):
            dropped.append(member)
        else:
            found.extend(_patterns(member, array))
    if dropped and not any(Dense in pattern.classes for pattern in found):
        raise _never_seen(dropped[0])
    return tuple(found)


def _array_type(annotation: object) -> object:
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        return annotation.array_type
    return annotation


def _is_numpy_scalar(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, np.generic)


def _never_seen(annotation: object) -> AnnotationError:
    return AnnotationError(
        f"{_text(annotation)} is never seen: what is not implicit is normalised to Array",
        "annotate Array (jax.Array), which stands for numpy arrays and scalars too",
    )


def _classes(cls: Any, array: frozenset[type]) -> frozenset[type]:
    cls = _unaliased(cls)
    if cls is Any or cls is object or cls is ArrayValue:
        return _BOTH
    if cls is jax.Array:
        return array
    if isinstance(cls, type) and issubclass(cls, ImplicitValue):
        return frozenset({dispatch_root(cls)})
    if isinstance(cls, type):
        if issubclass(cls, Tracer):
            raise AnnotationError(
                "Tracer is never dispatched on: a traced operand is normalised to Array",
                "annotate Array (jax.Array)",
            )
        if cls in _NEVER_SEEN or issubclass(cls, np.generic):
            raise _never_seen(cls)
        if getattr(cls, "_is_protocol", False) or inspect.isabstract(cls):
            raise AnnotationError(
                f"{cls.__name__} is a Protocol or an abstract class, whose members may change "
                "after the handler is declared",
                _CLASSES,
            )
    if "PyTree" in repr(cls):
        raise AnnotationError(f"{_text(cls)} is a PyTree", "an operand is one array: annotate that")
    raise AnnotationError(f"{_text(cls)} is not a dispatch class", _CLASSES)


def _jaxtyping(annotation: type[AbstractArray], array: frozenset[type]) -> ArrayPattern:
    return ArrayPattern(
        _classes(annotation.array_type, array),
        _dtypes(annotation.dtypes),
        parse_dims(annotation.dim_str),
        source=annotation,
        text=_text(annotation),
    )


def _dtypes(dtypes: Any) -> DtypeSet:
    return ANY_DTYPE if dtypes is _SHAPED_DTYPES else dtype_set(dtypes)


def _text(annotation: object) -> str:
    """The annotation as a user would write it."""
    annotation = _unaliased(annotation)
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, type) and issubclass(annotation, AbstractArray):
        dtype = annotation.dtype.__name__
        return f'{dtype}[{_text(annotation.array_type)}, "{annotation.dim_str}"]'
    if annotation is jax.Array:
        return "Array"
    if annotation is None or annotation is types.NoneType:
        return "None"
    origin = get_origin(annotation)
    if origin in _UNIONS:
        return " | ".join(dict.fromkeys(map(_text, get_args(annotation))))
    if origin is Annotated:
        return f"Annotated[{', '.join(map(_text, get_args(annotation)))}]"
    if isinstance(annotation, TypeVar):
        return annotation.__name__
    if origin in (tuple, list, Sequence):
        items = ["..." if each is ... else _text(each) for each in get_args(annotation)]
        return f"{origin.__name__}[{', '.join(items) or '()'}]"
    if origin is None and isinstance(annotation, type):
        root = dispatch_root(annotation)
        return "ImplicitArray" if root is ImplicitValue else annotation.__name__
    return str(annotation).replace("typing.", "")


# --- all operands of a handler --------------------------------------------------------------

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def signature_of(parameters: Iterable[ParameterFacts]) -> Signature:
    """The signature of a handler whose operands are these; keyword parameters are left out.

    Raises:
        AnnotationError: an annotation means nothing on an operand; names the parameter.
    """
    found: list[Parameter] = []
    rest: Parameter | None = None
    for name, annotation, kind, has_default in parameters:
        if kind in _POSITIONAL or kind is inspect.Parameter.VAR_POSITIONAL:
            try:
                patterns = operand_patterns(annotation)
            except AnnotationError as error:
                raise error.of(name) from None
            parameter = Parameter(name, patterns, not has_default, _text(annotation))
            if kind is inspect.Parameter.VAR_POSITIONAL:
                rest = replace(parameter, required=False)
            else:
                found.append(parameter)
    form = Form(tuple(found), rest)
    check_names_bound(form)
    return Signature((form,))


def check_names_bound(form: Form, where: str = "an operand that is always there") -> None:
    """Every name in an expression has, in every choice of alternatives, an axis of its own.

    Of several operands in one choice, one binds the name if each of its alternatives does; a
    parameter with a default, or `*args`, may be absent, and binds names for itself alone.

    Raises:
        AnnotationError: a name has none; it says `where` to give it one.
    """
    parameters = [*form.parameters, *([form.rest] if form.rest else [])]
    certain: set[str] = set()
    for parameter in parameters:
        if parameter.required:
            certain |= frozenset.intersection(
                *(pattern.dims.plain_names for pattern in parameter.alternatives)
            )
    for parameter in parameters:
        for pattern in parameter.alternatives:
            known = certain | pattern.dims.plain_names
            for _, axis in pattern.dims.deferred:
                for name in sorted(names_of(axis.size) - known):
                    raise AnnotationError(
                        f"the axis {str(axis)!r} needs {name!r}, which is not bound by a plain "
                        "axis in every case",
                        f"give {name!r} an axis of its own in {where}, or write `_`",
                        parameter.name,
                        code="unbound-axis",
                    )


# --- results --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultPattern:
    """What a handler says that it gives back.

    In a result `Array` means dense or implicit, as it does to a type checker.

    Attributes:
        items: the alternatives of each array of the result; None if the handler says nothing.
        single: one array, not a tuple or list of them.
        repeated: a tuple or list of any length, each as `items[0]`.
        may_decline: `Declined` or `NotImplementedType` is among what it may give.
        text: the annotation as the user wrote it.
    """

    items: tuple[tuple[ArrayPattern, ...], ...] | None
    single: bool
    repeated: bool = False
    may_decline: bool = False
    text: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Every axis name used, a section's with its star."""
        return frozenset().union(
            *(pattern.dims.names for item in self.items or () for pattern in item)
        )


def result_patterns(annotation: object) -> ResultPattern:
    """What the return annotation promises.

    Raises:
        AnnotationError: it is no array and no tuple or list of arrays.
    """
    annotation = _unaliased(annotation)
    text = _text(annotation)
    if annotation in (inspect.Parameter.empty, Any, object):
        return ResultPattern(None, single=False, text=text)
    members = get_args(annotation) if get_origin(annotation) in _UNIONS else (annotation,)
    kept = [m for m in members if m not in (Declined, types.NotImplementedType)]
    declines = len(kept) < len(members)
    if not kept:
        return ResultPattern((), single=False, may_decline=declines, text=text)
    if any(m is None or m is types.NoneType for m in kept):
        raise AnnotationError(
            f"the result {text}: a handler gives an array, never None",
            "to decline a call, return DECLINE and annotate `| Declined`",
            code="result",
        )
    if any(m in (Any, object) for m in kept):
        return ResultPattern(None, single=False, may_decline=declines, text=text)
    containers = [m for m in kept if (get_origin(m) or m) in (tuple, list, Sequence)]
    if containers:
        if len(kept) > 1:
            raise AnnotationError(
                f"the result {text} is of several kinds",
                "return one tuple or list type, with unions inside it",
            )
        items, repeated = _container_items(containers[0])
        return ResultPattern(
            items, single=False, repeated=repeated, may_decline=declines, text=text
        )
    try:
        patterns = tuple(p for member in kept for p in _patterns(member, _BOTH))
    except AnnotationError as error:
        raise AnnotationError(
            f"the result {text}: {error.problem}", error.advice, code=error.code
        ) from None
    return ResultPattern((patterns,), single=True, may_decline=declines, text=text)


def _container_items(
    annotation: object,
) -> tuple[tuple[tuple[ArrayPattern, ...], ...] | None, bool]:
    arguments = get_args(annotation)
    if not arguments:
        return None, False
    if get_origin(annotation) is tuple and not (len(arguments) == 2 and arguments[1] is ...):
        return tuple(_patterns(a, _BOTH) for a in arguments if a != ()), False
    return (_patterns(arguments[0], _BOTH),), True


# --- fields ---------------------------------------------------------------------------------


def field_patterns(annotation: object) -> tuple[ArrayPattern, ...] | None:
    """What an array field may hold, None if it is no array field.

    In a field `Array` means dense or implicit, and None may stand beside arrays.

    Raises:
        AnnotationError: a jaxtyping annotation in it cannot be read.
    """
    annotation = _unaliased(annotation)
    members = get_args(annotation) if get_origin(annotation) in _UNIONS else (annotation,)
    kept = [m for m in members if m is not None and m is not types.NoneType]
    if not any(_mentions_array(m) for m in kept):
        return None
    return _union(kept, _BOTH)


def _mentions_array(annotation: object) -> bool:
    annotation = _unaliased(annotation)
    if isinstance(annotation, TypeVar):
        inner = annotation.__constraints__ or (annotation.__bound__,)
        return any(_mentions_array(member) for member in inner)
    if get_origin(annotation) is Annotated:
        return _mentions_array(get_args(annotation)[0])
    if get_origin(annotation) in _UNIONS:
        return any(_mentions_array(member) for member in get_args(annotation))
    return isinstance(annotation, type) and (
        annotation in (jax.Array, ArrayValue)
        or issubclass(annotation, ImplicitValue | AbstractArray)
    )


def no_leaf(annotation: object) -> str | None:
    """The text of an annotation of what JAX takes for no leaf (text, a function); else None."""
    annotation = _unaliased(annotation)
    members = get_args(annotation) if get_origin(annotation) in _UNIONS else (annotation,)
    kept = [m for m in members if m is not None and m is not types.NoneType]
    return _text(annotation) if kept and all(map(_is_no_leaf, kept)) else None


def _is_no_leaf(annotation: object) -> bool:
    origin = get_origin(annotation)
    if origin is Literal:
        return any(isinstance(value, str | bytes) for value in get_args(annotation))
    if origin in (type, Callable):
        return True
    kinds = (str, bytes, Enum, np.dtype, type)
    return isinstance(annotation, type) and origin is None and issubclass(annotation, kinds)


def event_rank(patterns: Sequence[ArrayPattern]) -> int | None:
    """How many axes the patterns say; None if they say nothing, or not one number."""
    ranks = {
        None
        if pattern.dims == ANY_SHAPE or pattern.dims.section is not None
        else pattern.dims.fixed
        for pattern in patterns
    }
    return ranks.pop() if len(ranks) == 1 else None
