"""A handler: a plain function, and what its own signature says about the calls it takes."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from typedqax._annotations import (
    AnnotationError,
    ResultPattern,
    operand_patterns,
    result_patterns,
    signature_of,
)
from typedqax._errors import HandlerFacts, Problem, SignatureError
from typedqax._hints import UnresolvedHintError, read_hints
from typedqax._origin import Origin, Place
from typedqax._signature import ArrayPattern, Signature

Parameter = inspect.Parameter


@dataclass(frozen=True, slots=True)
class Params:
    """Which of a primitive's params a handler takes.

    Attributes:
        required: named, without a default.
        optional: named, with a default.
        rest: what becomes of the others. "passed": it takes `**params`; "ignored": it says by a
            name such as `**_` that it ignores them; "declined": with any of them, unless it
            is None, the handler declines.
    """

    required: frozenset[str]
    optional: frozenset[str]
    rest: Literal["passed", "ignored", "declined"]

    @property
    def named(self) -> frozenset[str]:
        """All that are named."""
        return self.required | self.optional


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Handler:
    """A function that computes a primitive on some kinds of operands.

    Attributes:
        function: what to call.
        name: how it is called in texts.
        place: where it was written.
        origin: which definition it comes from.
        signature: the operands that it takes.
        operands: the names of its operands; `*name` for the variadic one.
        by_keyword: those of them that Python would also take as a keyword.
        params: the params that it takes.
        param_hints: the annotations of those that it names.
        result: what its return annotation says.
        declines: "never", "may", or "unknown" where nothing is annotated.
        first: whether it is given the op or the primitive ahead of its operands.
    """

    function: Callable[..., Any]
    name: str
    place: Place
    origin: Origin
    signature: Signature
    operands: tuple[str, ...]
    by_keyword: frozenset[str]
    params: Params
    param_hints: Mapping[str, object]
    result: ResultPattern
    declines: Literal["never", "may", "unknown"]
    first: bool

    @classmethod
    def of(cls, function: object, *, takes_first: bool) -> Handler:
        """The handler that `function` describes.

        Raises:
            SignatureError: it is not a function, or it says what cannot be dispatched on.
        """
        called, written = _called_and_written(function)
        name, place, origin = _identity(written)
        shape = _shape_of(called, name, place)
        positional = [each for each in shape if each.kind in _POSITIONAL]
        if takes_first:
            positional = _without_first(positional, name, place)
        hints, unresolved = read_hints(written, without=_firsts(shape) if takes_first else ())

        def hint(parameter: Parameter) -> object:
            return hints.get(parameter.name, Parameter.empty)

        returned = hints.get("return", Parameter.empty)
        operands = {each.name: hint(each) for each in positional}
        try:
            if unresolved:
                raise unresolved[0]
            signature = signature_of(
                (each.name, hint(each), each.kind, each.default is not Parameter.empty)
                for each in positional
            )
            result = result_patterns(returned)
        except UnresolvedHintError as error:
            problems = [_unresolved(each, written) for each in unresolved]
            problems += _meaningless(operands, returned)
            raise SignatureError(name, str(place), problems) from error
        except AnnotationError as error:
            problems = _meaningless(operands, returned) or [Problem(error.code, str(error))]
            raise SignatureError(name, str(place), problems) from error
        free = _free_names(signature, result)
        if free:
            raise SignatureError(name, str(place), free)
        return cls(
            function=called,
            name=name,
            place=place,
            origin=origin,
            signature=signature,
            operands=tuple(_shown(each) for each in positional),
            by_keyword=frozenset(
                each.name for each in positional if each.kind is Parameter.POSITIONAL_OR_KEYWORD
            ),
            params=_params_of(shape),
            param_hints={
                each.name: hints[each.name]
                for each in shape
                if each.kind is Parameter.KEYWORD_ONLY and each.name in hints
            },
            result=result,
            declines=_declines(returned, result),
            first=takes_first,
        )

    @property
    def arities(self) -> tuple[int, int | None]:
        """The fewest and the most operands that it takes; None: any number."""
        form = self.signature.forms[0]
        return form.least, None if form.rest is not None else len(form.parameters)

    @property
    def total(self) -> bool:
        """Whether it can be counted on to take every call that its operands admit."""
        return self.declines != "may"

    def accepted(self, params: Mapping[str, object]) -> dict[str, object] | str:
        """The params to call it with; a text: why it declines a call with these."""
        missing = self.params.required - params.keys()
        if missing:
            return f"it needs the param {min(missing)!r}, which this call does not have"
        if self.params.rest != "declined":
            return dict(params)
        named = self.params.named
        for name, value in params.items():
            if value is not None and name not in named:
                return f"it does not take the param {name!r}, which is not None in this call"
        return {name: value for name, value in params.items() if name in named}

    def facts(self) -> HandlerFacts:
        """What an error text says about it."""
        return HandlerFacts(
            self.name, self.signature.render(), str(self.place), self.origin.package
        )


_POSITIONAL = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
)


def _called_and_written(function: object) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What to call, and the plain function in it that carries the annotations."""
    if isinstance(function, staticmethod):
        function = function.__func__
    described = getattr(function, "__qualname__", None) or type(function).__qualname__
    if isinstance(function, (types.MethodType, classmethod)):
        raise SignatureError(
            described,
            "a method",
            [
                Problem(
                    "handler",
                    "a handler is a plain function, which can be called alone; or use "
                    "@staticmethod",
                )
            ],
        )
    if not callable(function) or isinstance(function, type):
        kind = "a class" if isinstance(function, type) else f"of type {type(function).__name__}"
        raise SignatureError(
            described,
            kind,
            [Problem("handler", "a handler is a plain function of the primitive's operands")],
        )
    written: Any = function
    while True:
        if isinstance(written, functools.partial):
            written = written.func
        elif hasattr(written, "__wrapped__"):
            written = written.__wrapped__
        elif isinstance(written, types.MethodType):
            written = written.__func__
        elif not isinstance(written, types.FunctionType) and hasattr(
            type(written).__call__, "__code__"
        ):
            written = type(written).__call__
        else:
            return function, written


def _identity(written: Callable[..., Any]) -> tuple[str, Place, Origin]:
    code: types.CodeType | None = getattr(written, "__code__", None)
    name = getattr(written, "__name__", type(written).__name__)
    qualname = getattr(written, "__qualname__", name)
    if name == "__call__":
        name = qualname.split(".")[-2] if "." in qualname else name
    place = Place.of(written) or Place("<built in>", 0)
    module = getattr(written, "__module__", None) or "__main__"
    return name, place, Origin.of(module, qualname, place, code)


def _shape_of(called: Callable[..., Any], name: str, place: Place) -> list[Parameter]:
    """The parameters of `called`, without those that a partial has bound by keyword."""
    if inspect.iscoroutinefunction(called) or inspect.isgeneratorfunction(called):
        raise SignatureError(
            name,
            str(place),
            [
                Problem(
                    "handler", "a handler returns its result; this is a coroutine or a generator"
                )
            ],
        )
    try:
        parameters = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError) as error:
        raise SignatureError(
            name,
            str(place),
            [Problem("handler", "it has no signature that Python can read; wrap it in a def")],
        ) from error
    bound = called.keywords if isinstance(called, functools.partial) else {}
    parameters = [each for each in parameters if each.name not in bound]
    qualname = getattr(called, "__qualname__", "")
    in_class = "." in qualname and not qualname.rpartition(".")[0].endswith("<locals>")
    if in_class and parameters and parameters[0].name in ("self", "cls"):
        raise SignatureError(
            name,
            str(place),
            [
                Problem(
                    "handler",
                    f"it is a method, with `{parameters[0].name}`; write a function or a "
                    "@staticmethod",
                )
            ],
        )
    return parameters


def _without_first(positional: list[Parameter], name: str, place: Place) -> list[Parameter]:
    """The operands of a handler that is given the op or the primitive first."""
    if not positional:
        raise SignatureError(
            name,
            str(place),
            [Problem("arity", "it is given the op ahead of the operands, but takes no positional")],
        )
    # def handler(*everything): the op is the first of them.
    return positional if positional[0].kind is Parameter.VAR_POSITIONAL else positional[1:]


def _firsts(parameters: list[Parameter]) -> tuple[str, ...]:
    """The name of what is given first; what it is annotated with plays no part."""
    first = parameters[0]
    return () if first.kind is Parameter.VAR_POSITIONAL else (first.name,)


def _params_of(parameters: list[Parameter]) -> Params:
    keyword = [each for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
    rest = next((each for each in parameters if each.kind is Parameter.VAR_KEYWORD), None)
    return Params(
        frozenset(each.name for each in keyword if each.default is Parameter.empty),
        frozenset(each.name for each in keyword if each.default is not Parameter.empty),
        "declined" if rest is None else "ignored" if rest.name.startswith("_") else "passed",
    )


def _declines(returned: object, result: ResultPattern) -> Literal["never", "may", "unknown"]:
    if result.may_decline:
        return "may"
    return "unknown" if returned in (Parameter.empty, Any, object) else "never"


def _free_names(signature: Signature, result: ResultPattern) -> list[Problem]:
    """What is wrong with axis names of the result that no operand gives a size."""
    form = signature.forms[0]
    parameters = [each for each in form.parameters if each.required]
    parameters += [form.rest] if form.rest is not None else []
    certain: set[str] = set()
    for parameter in parameters:
        certain |= frozenset.intersection(*map(bound_names, parameter.alternatives))
    possible = frozenset().union(*map(bound_names, signature.patterns))
    problems = []
    for name in sorted(result.names - certain):
        if name in possible:
            text = (
                f"the axis {name!r} of the result {result.text} has no size in those calls in "
                "which no operand binds it; bind it in every alternative, or write `_`"
            )
        else:
            text = (
                f"the axis {name!r} of the result {result.text} is in no operand: misspelt, or "
                "write `_` (`...` for any number of axes)"
            )
        problems.append(Problem("unbound-axis", text))
    return problems


def bound_names(pattern: ArrayPattern) -> frozenset[str]:
    """The axis names that an operand of this pattern gives a size."""
    dims = pattern.dims
    named = {axis.size for _, axis in dims.positions if isinstance(axis.size, str)}
    if dims.section is not None and dims.section.name is not None:
        named.add(f"*{dims.section.name}")
    return frozenset(named)


def _shown(parameter: Parameter) -> str:
    starred = parameter.kind is Parameter.VAR_POSITIONAL
    return f"*{parameter.name}" if starred else parameter.name


def _meaningless(operands: Mapping[str, object], returned: object) -> list[Problem]:
    """All annotations that mean nothing, each looked at by itself."""
    problems = []
    for name, annotation in operands.items():
        try:
            operand_patterns(annotation)
        except AnnotationError as error:
            problems.append(Problem(error.code, str(error.of(name))))
    try:
        result_patterns(returned)
    except AnnotationError as error:
        problems.append(Problem(error.code, str(error)))
    return problems


def _unresolved(error: UnresolvedHintError, written: Callable[..., Any]) -> Problem:
    """What to do about an annotation that cannot be evaluated."""
    whose = "the result" if error.parameter == "return" else f"`{error.parameter}`"
    text = f"the annotation of {whose}, {error.annotation!r}, has no value ({error.reason})"
    if error.valued:
        return Problem("shape", text)
    if "<locals>" in getattr(written, "__qualname__", ""):
        text += (
            "; a class that is local to a function can be named in a postponed annotation only "
            "while that function runs: declare the handler there"
        )
    else:
        text += "; what an annotation names must be imported at run time, not under TYPE_CHECKING"
    return Problem("annotation", text)
