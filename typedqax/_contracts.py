"""Contracts, decided by beartype: fields, operands, params and results against their annotations.

beartype decides the first time that something is met; what it accepted is remembered by class,
dtype and shape. Which handler runs never depends on a contract.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ContextDecorator
from contextvars import ContextVar
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from beartype.door import is_bearable
from jax.core import Tracer

from typedqax import _jax
from typedqax._annotations import (
    AnnotationError,
    ResultPattern,
    result_patterns,
)
from typedqax._aval import (
    aval_of,
    batch_shape,
    describe,
    fields_key,
    is_array_like,
    materialize_of,
    refuse_no_array,
)
from typedqax._declined import Declined
from typedqax._dispatch import Candidate
from typedqax._dtypes import ANY_DTYPE
from typedqax._errors import ContractError, UsageError, shown_argument, shown_result
from typedqax._fields import field_layouts
from typedqax._handler import Handler
from typedqax._hints import UnresolvedHintError, type_hints
from typedqax._instantiation import instantiate, instantiated_axes
from typedqax._jax import Params, Primitive
from typedqax._mismatch import mismatch
from typedqax._signature import (
    ArrayPattern,
    Dense,
    Match,
    Operand,
    Parameter,
    Signature,
    shown_class,
)
from typedqax._value import ImplicitValue, child_values, is_value

_REMEMBERED = 4096
"""How many accepted calls a handler, or values a class, remembers: bounded, dropped at once."""

_SWITCH: Mapping[str, bool] = {"on": True, "1": True, "off": False, "0": False}


def _checks_by_default() -> bool:
    """What the environment says."""
    given = os.environ.get("TYPEDQAX_CHECKS") or "on"
    if given.lower() not in _SWITCH:
        raise UsageError(f"TYPEDQAX_CHECKS={shown_argument(given)}: it is 'on' or 'off'.")
    return _SWITCH[given.lower()]


_BY_DEFAULT = _checks_by_default()
_enabled: ContextVar[bool] = ContextVar("typedqax_checks", default=_BY_DEFAULT)


_before: ContextVar[tuple[bool, ...]] = ContextVar("typedqax_checks_before", default=())


class checks(ContextDecorator):  # noqa: N801  # used as a verb: with checks(False)
    """A block, or a function, in which contracts are checked (the default) or are not.

    Which handler runs is the same either way. The environment variable `TYPEDQAX_CHECKS=off`
    turns them off for a whole process.

    Example:
        >>> import typedqax as tq
        >>> with tq.checks(False):
        ...     pass
    """

    @_jax.api_boundary
    def __init__(self, enabled: bool, /) -> None:  # the only thing it says
        given: object = enabled
        if not isinstance(given, bool):
            raise UsageError(f"checks({shown_argument(given)}): give True or False.")
        self._wanted = enabled

    def __enter__(self) -> None:
        _before.set((*_before.get(), _enabled.get()))
        _enabled.set(self._wanted)

    def __exit__(self, *exc_info: object) -> None:
        before = _before.get()  # of this thread: the object serves all calls at once
        if not before:
            raise UsageError(
                f"checks({self._wanted}): this block ends in another thread or context than it "
                f"began in, where it stays in force. A generator that rests inside such a block "
                f"has to be closed where it was started."
            )
        *outer, enabled = before
        _before.set(tuple(outer))
        _enabled.set(enabled)


def checks_enabled() -> bool:
    """Whether contracts are checked here."""
    return _enabled.get()


# --- fields --------------------------------------------------------------------------------------


def check_fields(value: ImplicitValue) -> None:
    """The fields of a new implicit array against their annotations, axis names shared.

    Nothing is checked where a field holds no array: such a value is a tree of axes, specs or masks.

    Raises:
        ContractError: a field is not what its annotation says, or two disagree about an axis.
        ShapeError: the fields have different batch axes.
    """
    if not _enabled.get():
        return
    cls = type(value)
    accepted: set[Any] = cls.__dict__.get("_accepted_fields") or _new_memo(cls)
    key = fields_key(value)
    try:
        if key in accepted:
            return
    except TypeError:  # a tree of something that cannot be hashed
        return
    fields = _annotated_fields(value)
    for name, field, patterns in fields:
        if type(field) is list:
            raise ContractError(
                f"{cls.__name__}.{name}",
                f"holds a list, annotated {patterns[0].text}.",
                advice="Pass an array: jnp.asarray(...).",
            )
    if not all(is_array_like(field) for _, field, _ in fields):
        return
    if not fields:
        _remember(accepted, key)
        return
    described = [_describe_field(field) for _, field, _ in fields]
    layouts = field_layouts(cls)
    # With too few axes somewhere, there are none in front: the mismatch below says what is missing.
    missing = any(
        len(operand.shape) < (layouts[name].rank or 0)
        for operand, (name, _, _) in zip(described, fields, strict=True)
    )
    batch = 0 if missing else len(batch_shape(value))
    events = [
        _without_batch(operand, layouts[name].rank, batch)
        for operand, (name, _, _) in zip(described, fields, strict=True)
    ]
    match = _match_fields(cls, fields, events)
    for (name, _, _), pattern, event in zip(fields, match.patterns, events, strict=True):
        hint = instantiate(_class_free(pattern), match.bindings)
        if not is_bearable(_Standing(event), hint):
            raise ContractError(
                f"{cls.__name__}.{name}",
                f"holds {_as_field(event)}, annotated {pattern.text}.",
                origins=_origins(match, [n for n, _, _ in fields]),
            )
    _remember(accepted, key)


def check_axes(value: ImplicitValue) -> None:
    """The axes of the fields of an array that exists: some may have been assigned, or sliced.

    Dtypes and classes are left to `check_materialized`: tangents, masks and counts come as trees of
    the same class, and never become dense.

    Raises:
        ContractError: two fields disagree about an axis.
        ShapeError: the fields have different batch axes, or one has lost an axis.
    """
    if not _enabled.get():
        return
    cls = type(value)
    accepted: set[Any] = cls.__dict__.get("_accepted_fields") or _new_memo(cls)
    key = fields_key(value)
    try:
        if key in accepted or ("axes", key) in accepted:
            return
    except TypeError:  # a tree of something that cannot be hashed
        return
    fields = _annotated_fields(value)
    if not all(is_array_like(field) for _, field, _ in fields):
        return
    if fields:
        layouts, batch = field_layouts(cls), len(batch_shape(value))
        events = [
            replace(_without_batch(describe(field), layouts[name].rank, batch), cls=Dense)
            for name, field, _ in fields
        ]
        of_axes = [
            (name, field, tuple(replace(_class_free(each), dtypes=ANY_DTYPE) for each in patterns))
            for name, field, patterns in fields
        ]
        _match_fields(cls, of_axes, events)
    _remember(accepted, ("axes", key))


def _remember(accepted: set[Any], key: object) -> None:
    if len(accepted) >= _REMEMBERED:
        accepted.clear()
    accepted.add(key)


def _describe_field(field: Any) -> Operand:
    """As `describe`; a tracer that stands for an implicit array is of that array's class."""
    operand = describe(field)
    shown: type = field.__class__
    return replace(operand, cls=shown) if issubclass(shown, ImplicitValue) else operand


def _annotated_fields(
    value: ImplicitValue,
) -> list[tuple[str, Any, tuple[ArrayPattern, ...]]]:
    layouts = field_layouts(type(value))
    return [
        (name, field, patterns)
        for name, field in child_values(value)
        if name in layouts and (patterns := layouts[name].patterns) is not None
    ]


def _new_memo(cls: type[ImplicitValue]) -> set[Any]:
    memo: set[Any] = set()
    cls._accepted_fields = memo
    return memo


def _without_batch(operand: Operand, rank: int | None, batch: int) -> Operand:
    if rank is None or len(operand.shape) <= rank or not batch:
        return operand
    return replace(operand, shape=operand.shape[batch:])


def _match_fields(
    cls: type, fields: Sequence[tuple[str, Any, tuple[ArrayPattern, ...]]], events: list[Operand]
) -> Match:
    signature = Signature.of(
        *[Parameter(name, patterns, text=patterns[0].text) for name, _, patterns in fields]
    )
    match = signature.match(events)
    if match is None:
        names = [name for name, _, _ in fields]
        shown = ", ".join(f"{n}={_as_field(o)}" for n, o in zip(names, events, strict=True))
        raise ContractError(
            f"{cls.__name__}({shown}):",
            in_terms_of(names, mismatch(signature, events)) + ".",
            origins=[f"{name}: {patterns[0].text}" for name, _, patterns in fields],
        )
    return match


def _as_field(operand: Operand) -> str:
    """An operand as the repr of an implicit array shows its fields."""
    return str(operand).removeprefix("Array ") if operand.cls is Dense else str(operand)


def in_terms_of(names: Sequence[str], reason: str) -> str:
    """`reason` with the fields' names in place of operand numbers."""
    return re.sub(r"operand (\d+)", lambda found: names[int(found[1]) - 1], reason)


def _class_free(pattern: ArrayPattern) -> ArrayPattern:
    """`pattern` for a stand-in that has a dtype and a shape; its class was matched before."""
    return replace(pattern, classes=frozenset({Dense}), predicates=())


class _Standing:
    """A stand-in with the dtype and shape of an operand, for beartype to look at."""

    __slots__ = ("dtype", "shape")

    def __init__(self, operand: Operand) -> None:
        # jaxtyping knows keys of all implementations by this name.
        self.dtype = "prng_key" if operand.dtype.startswith("key<") else operand.dtype
        self.shape = operand.shape


def _origins(match: Match, names: Sequence[str]) -> list[str]:
    """What each axis name stands for, and which operand said so."""
    shown = []
    for name, origin in match.origins.items():
        if name not in match.bindings:
            continue
        operand, pattern = match.operands[origin.operand], match.patterns[origin.operand]
        shown.append(
            f"{name} = {match.bindings[name]}  from {names[origin.operand]}: "
            f"{pattern.text or shown_class(operand.cls)}, axis {origin.axis} of {operand}"
        )
    return shown


# --- materialize ---------------------------------------------------------------------------------


def check_materialized(value: ImplicitValue, dense: Any) -> None:
    """What `materialize` gave, against the array's shape and dtype and the method's annotation.

    Raises:
        ContractError: it differs.
    """
    refuse_no_array(type(value), dense)
    if not _enabled.get():
        return
    aval, got = aval_of(value), describe(dense)
    expected = Operand(Dense, _jax.dtype_name(aval.dtype), tuple(aval.shape))
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        raise ContractError(
            materialize_of(type(value)),
            f"gave {got}, but this {type(value).__name__} is {expected}.",
            advice="The shape and dtype given, or computed, have to be those of materialize().",
        )
    result = materialize_result(type(value))
    if result is None or not result.items:
        return
    fields = _annotated_fields(value)
    if not all(is_array_like(field) for _, field, _ in fields):
        return
    operands = [_describe_field(field) for _, field, _ in fields]
    match = _match_fields(type(value), fields, operands)
    if not any(_bears(got, dense, pattern, match.bindings) for pattern in result.items[0]):
        raise ContractError(
            materialize_of(type(value)),
            f"gave {got}, annotated {result.text}{_expected(got, result.items[0], match)}.",
            origins=_origins(match, [n for n, _, _ in fields]),
        )


def materialize_result(cls: type[ImplicitValue]) -> ResultPattern | None:
    """What the return annotation of the class's `materialize` says.

    Raises:
        ContractError: it says nothing that an array can be.
    """
    if "_materialize_result" not in cls.__dict__:
        function = inspect.getattr_static(cls, "materialize")
        try:
            annotation = type_hints(function).get("return", Any)
            found = result_patterns(annotation)
        except (UnresolvedHintError, AnnotationError) as error:
            raise ContractError(
                materialize_of(cls),
                f"has a return annotation that says no array: {error}.",
            ) from error
        cls._materialize_result = found
    result: ResultPattern | None = cls.__dict__["_materialize_result"]
    return result


def _bears(got: Operand, value: Any, pattern: ArrayPattern, bindings: Mapping[str, Any]) -> bool:
    if got.cls.__mro__ and pattern.classes.isdisjoint(got.cls.__mro__):
        return False
    hint = instantiate(_class_free(pattern), bindings)
    return bool(is_bearable(_Standing(got), hint)) and all(
        predicate.is_valid(value) for predicate in pattern.predicates
    )


# --- handlers ------------------------------------------------------------------------------------


_accepted_results: WeakKeyDictionary[Handler, dict[Any, tuple[Operand, ...]]] = WeakKeyDictionary()


def check_call(candidate: Candidate, operands: tuple[Operand, ...], params: Params) -> None:
    """The operands and the named params of a handler against its annotations.

    Raises:
        ContractError: one is not what its annotation says.
    """
    if not _enabled.get():
        return
    handler, match = candidate.entry.handler, candidate.match
    hints: Mapping[str, Any] = handler.param_hints
    for name, hint in hints.items():
        if name in params and not is_bearable(_plain(params[name]), hint):
            raise ContractError(
                f"the param {name!r} of {handler.name} ({handler.place})",
                f"is {_shown(params[name])}, annotated {_hint_text(hint)}.",
            )
    for operand, pattern in zip(operands, match.patterns, strict=True):
        hint = instantiate(_class_free(pattern), match.bindings)
        if not is_bearable(_Standing(operand), hint):
            raise ContractError(
                f"an operand of {handler.name} ({handler.place})",
                f"is {operand}, annotated {pattern.text}.",
                origins=_origins(match, _operand_names(handler, len(operands), candidate.swapped)),
            )


def _plain(param: Any) -> Any:
    """A param with Python's ints for numpy's, which JAX lets through in axes and sizes."""
    if isinstance(param, np.integer):
        return int(param)
    if type(param) is tuple:
        return tuple([_plain(item) for item in param])
    return param


def check_results(
    primitive: Primitive,
    candidate: Candidate,
    operands: tuple[Operand, ...],
    params: Params,
    result: Any,
    avals: Sequence[Any],
) -> list[Any]:
    """What a handler gave, as a list of strongly typed arrays, after its contracts.

    It is compared with the handler's return annotation, its axis names standing for the sizes that
    the operands have, and with the shape and dtype that the primitive itself would give.

    Raises:
        ContractError: it differs from either.
    """
    handler = candidate.entry.handler
    results = _as_list(primitive, handler, result)
    if not _enabled.get():
        return [_strong(item) for item in results]
    got = tuple([describe(item) for item in results])
    key = (primitive.name, operands, _frozen(params))
    accepted = _accepted_results.get(handler)
    if accepted is None:
        accepted = _accepted_results[handler] = {}
    if key[-1] is None or accepted.get(key) != got:
        check_call(candidate, operands, params)
        _check_annotation(primitive, candidate, operands, results, got)
        _check_primitive(primitive, handler, operands, params, got, avals)
        if len(accepted) >= _REMEMBERED:
            accepted.clear()
        if key[-1] is not None:
            accepted[key] = got
    return [_strong(item) for item in results]


def _frozen(params: Params) -> tuple[tuple[str, Any], ...] | None:
    """`params` as part of a key; None where one cannot be hashed."""
    frozen = tuple(params.items())
    try:
        hash(frozen)
    except TypeError:
        return None
    return frozen


def _as_list(primitive: Primitive, handler: Handler, result: Any) -> list[Any]:
    if primitive.multiple_results:
        if not isinstance(result, (list, tuple)):
            raise ContractError(
                _subject(primitive, handler),
                f"returned {_shown(result)}; `{primitive.name}` has several results: return a list "
                f"or tuple of arrays.",
            )
        items = list(result)
    else:
        items = [result]
    return [_as_array(primitive, handler, item) for item in items]


def _subject(primitive: Primitive, handler: Handler) -> str:
    return f"handler {handler.name} for `{primitive.name}` ({handler.place})"


def _as_array(primitive: Primitive, handler: Handler, item: Any) -> Any:
    if is_value(item) or isinstance(item, (jax.Array, np.ndarray, np.generic)):
        return item
    if isinstance(item, Tracer):
        return item
    advice = ""
    if item is None:
        advice = "Return the array; to decline the call, return typedqax.DECLINE."
    elif item is Declined:
        advice = "It is the class of what declines: did you mean typedqax.DECLINE?"
    elif isinstance(item, (list, tuple)) and not primitive.multiple_results:
        advice = f"`{primitive.name}` has one result."
    elif isinstance(item, (bool, int, float, complex)):
        advice = "Return an array of the result's shape and dtype."
    raise ContractError(
        _subject(primitive, handler),
        f"returned {_shown(item)}; an array is due.",
        advice=advice,
    )


def _strong(item: Any) -> Any:
    return item if is_value(item) else _jax.strongly_typed(item)


def _check_annotation(
    primitive: Primitive,
    candidate: Candidate,
    operands: tuple[Operand, ...],
    results: Sequence[Any],
    got: tuple[Operand, ...],
) -> None:
    handler, match = candidate.entry.handler, candidate.match
    pattern = handler.result
    if pattern.items is None:
        return
    items = pattern.items * len(got) if pattern.repeated else pattern.items
    subject = f"handler {handler.name} for `{primitive.name}` ({handler.place})"
    if len(items) != len(got):
        raise ContractError(
            subject, f"returned {len(got)} arrays, annotated {pattern.text or len(items)}."
        )
    for value, operand, alternatives in zip(results, got, items, strict=True):
        if any(_bears(operand, value, each, match.bindings) for each in alternatives):
            continue
        expected = _expected(operand, alternatives, match)
        raise ContractError(
            subject,
            f"returned {operand}, annotated {pattern.text}{expected}.",
            origins=_origins(match, _operand_names(handler, len(operands), candidate.swapped)),
        )


def _expected(got: Operand, alternatives: Sequence[ArrayPattern], match: Match) -> str:
    """What of the annotation `got` is not, with sizes for names, where there is one alternative."""
    if len(alternatives) != 1:
        return ""
    if alternatives[0].classes.isdisjoint(got.cls.__mro__):
        return f": {shown_class(got.cls)} is another class"
    if not _class_free(alternatives[0]).accepts_kind(replace(got, cls=Dense)):
        return f": {got.dtype} is another dtype"
    return f", which here is [{','.join(instantiated_axes(alternatives[0].dims, match.bindings))}]"


def _operand_names(handler: Handler, count: int, swapped: bool) -> list[str]:
    names = [name.lstrip("*") for name in handler.operands]
    names += [names[-1] if names else "operand"] * (count - len(names))
    names = names[:count]
    return names[::-1] if swapped else names


def _check_primitive(
    primitive: Primitive,
    handler: Handler,
    operands: tuple[Operand, ...],
    params: Params,
    got: tuple[Operand, ...],
    avals: Sequence[Any],
) -> None:
    expected = _jax.out_avals(primitive, avals, params)
    if expected is None:
        return
    due = [
        Operand(Dense, _jax.dtype_name(aval.dtype), tuple(aval.shape))
        for aval in expected
        if hasattr(aval, "dtype")
    ]
    if len(due) == len(got) and all(
        (a.dtype, a.shape) == (b.dtype, b.shape) for a, b in zip(got, due, strict=True)
    ):
        return
    call = f"{primitive.name}({', '.join(map(str, operands))})"
    raise ContractError(
        f"handler {handler.name} for `{primitive.name}` ({handler.place})",
        f"returned {', '.join(map(str, got))}, but {call} is {', '.join(map(str, due))}.",
        advice="A handler stands for the primitive: its result has the same shape and dtype.",
    )


def _shown(value: Any) -> str:
    """A value without its contents."""
    return str(describe(value)) if is_array_like(value) else shown_result(value)


def _hint_text(hint: object) -> str:
    if isinstance(hint, type) and not hasattr(hint, "__origin__"):
        return hint.__name__
    return str(hint).replace("typing.", "")
