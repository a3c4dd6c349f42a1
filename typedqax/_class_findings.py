"""Findings about implicit classes: fields and a `materialize` that do not fit together."""

from __future__ import annotations

import difflib
import inspect
import itertools
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import jax
import numpy as np

from typedqax._annotations import AnnotationError, ResultPattern, result_patterns
from typedqax._aval import describe, is_array_like
from typedqax._contracts import in_terms_of
from typedqax._dims import Axis
from typedqax._dtypes import dtype_bit
from typedqax._errors import TypedQaxError, shortened
from typedqax._fields import FieldLayout, read_fields
from typedqax._findings import Finding, Severity
from typedqax._handler import bound_names
from typedqax._hints import UnresolvedHintError, type_hints
from typedqax._mismatch import mismatch
from typedqax._origin import Place
from typedqax._polynomial import Polynomial, Size
from typedqax._relations import inhabited
from typedqax._signature import ArrayPattern, Dense, Operand, Parameter, Signature
from typedqax._value import ImplicitValue, field_names
from typedqax._written import WrittenClass, method_place


def class_findings(cls: type[ImplicitValue]) -> Iterator[Finding]:
    """What is wrong with the fields of a class, and with its `materialize`."""
    if inspect.isabstract(cls):
        yield from _of_misspelt_materialize(cls)
        return
    written = WrittenClass.of(cls)
    try:
        layouts, errors = read_fields(cls)
    except (TypeError, ValueError) as refused:  # dataclasses: of fields' order, of mutable defaults
        text = f"the fields of `{cls.__qualname__}`: {refused}"
        yield finding_of(cls, written.place(), "field", text)
        return
    for error in errors:
        file, _, line = error.place.rpartition(":")
        place = Place(file, int(line)) if line.isdigit() else written.place()
        for problem in error.problems:
            yield finding_of(cls, place, "field", f"`{error.handler}`: {problem}")
    if not errors:
        yield from _Fields(cls, layouts).findings()


def _of_misspelt_materialize(cls: type[ImplicitValue]) -> Iterator[Finding]:
    """That a class cannot have instances for want of a `materialize`, which it misspells."""
    if "materialize" in vars(cls) or "materialize" not in getattr(cls, "__abstractmethods__", ()):
        return
    near = difflib.get_close_matches("materialize", [*vars(cls)], n=1, cutoff=0.8)
    if near:
        text = (
            f"`{cls.__qualname__}` has no `materialize`, so that there are no instances of it; "
            f"is `{near[0]}` meant?"
        )
        yield finding_of(cls, WrittenClass.of(cls).place(), "materialize", text)


def finding_of(
    cls: type, place: Place, code: str, text: str, severity: Severity = "error"
) -> Finding:
    """A finding about `cls`, for the package that has it."""
    packages = frozenset({cls.__module__.partition(".")[0]})
    return Finding(place.file, place.line, code, text, severity, packages)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The array fields of a class whose annotations say something.

    Attributes:
        cls: the class.
        layouts: what they say.
    """

    cls: type[ImplicitValue]
    layouts: Mapping[str, FieldLayout]

    @property
    def parameters(self) -> list[Parameter]:
        """The fields as operands, dense ones."""
        return [
            Parameter(name, _of_axes_alone(layout.patterns), text=layout.patterns[0].text)
            for name, layout in self.layouts.items()
            if layout.patterns is not None
        ]

    def findings(self) -> Iterator[Finding]:
        """What is wrong with the fields taken together, and with `materialize`."""
        cls, parameters = self.cls, self.parameters
        alike = Signature.of(*parameters)
        witness = inhabited(alike) if parameters else ()
        if witness is None or alike.match(witness) is None:
            shown = ", ".join(map(str, parameters))
            name = cls.__qualname__
            text = f"the axes of the fields of `{name}` never agree: no sizes fit {shown}"
            # What the search could neither find nor exclude is but noted.
            impossible = witness is None or _is_below_zero(parameters)
            severity: Severity = "error" if impossible else "note"
            yield finding_of(cls, WrittenClass.of(cls).place(), "field", text, severity)
            return
        yield from self._of_materialize(tuple(witness))

    def _of_materialize(self, witness: tuple[Operand, ...]) -> Iterator[Finding]:
        """What is wrong with `materialize`, given operands that fit the fields."""
        cls, parameters = self.cls, self.parameters
        function = inspect.getattr_static(cls, "materialize")
        place = method_place(cls, "materialize") or WrittenClass.of(cls).place()
        name = f"`{cls.__qualname__}.materialize`"
        wanted = _required(function)
        if wanted:
            text = f"{name} is called with the array alone, and asks for {', '.join(wanted)}"
            yield finding_of(cls, place, "materialize", text)
            return
        try:
            result = result_patterns(type_hints(function).get("return", Any))
        except (UnresolvedHintError, AnnotationError) as error:
            reason = getattr(error, "reason", "") or error
            yield finding_of(cls, place, "materialize", f"{name}: its return annotation: {reason}")
            return
        if result.items is not None and (not result.single or result.may_decline):
            text = f"{name} returns one array, and never declines; it is annotated {result.text}"
            yield finding_of(cls, place, "materialize", text)
            return
        known: frozenset[str] = frozenset().union(
            *(bound_names(each) for parameter in parameters for each in parameter.alternatives)
        )
        free = sorted(result.names - known)
        if free:
            names = ", ".join(repr(each) for each in free)
            text = (
                f"{name}: the axis {names} of its result {result.text} is in no field: misspelt, "
                "or write `_` (`...` for any number of axes)"
            )
            # Auxiliary data, or the shape that an instance is given, may say how long it is.
            known_otherwise = bool(field_names(cls).auxiliary) or not parameters
            severity: Severity = "note" if known_otherwise else "error"
            yield finding_of(cls, place, "materialize", text, severity)
            return
        operands = _of_different_sizes(parameters, witness)
        if Signature.of(*parameters).match(operands) is None:
            operands = witness
        value = self._instance(operands)
        if value is None:
            return
        given = ", ".join(f"{p.name}={o}" for p, o in zip(parameters, operands, strict=True))
        try:
            dense = jax.eval_shape(lambda array: array.materialize(), value)
        except TypedQaxError:  # its shape or dtype, say, is known to an instance alone
            return
        except Exception as error:  # noqa: BLE001  # whatever it raises is what is told
            yield from self._of_raising(place, error, given)
            return
        problem = _contradiction(parameters, operands, result, dense, given)
        if problem is not None:
            yield finding_of(cls, place, "materialize", f"{name} {problem}")

    def _of_raising(self, place: Place, error: Exception, given: str) -> Iterator[Finding]:
        """That `materialize` raises; a mistake for sure where no size could make it work."""
        certain = isinstance(error, AttributeError | NameError)
        open_ranks = any(layout.rank is None for layout in self.layouts.values())
        if open_ranks and not certain:
            return
        for frame, line in traceback.walk_tb(error.__traceback__):
            if frame.f_code.co_filename == place.file:
                place = Place(place.file, line)
        said = shortened(str(error).partition("\n")[0], 300)
        text = f"`{self.cls.__qualname__}.materialize` raises {type(error).__name__}: {said}"
        if not certain:
            text += f"; for {given}, which the annotations of its fields admit"
        severity: Severity = "error" if certain else "note"
        yield finding_of(self.cls, place, "materialize", text, severity)

    def _instance(self, operands: Sequence[Operand]) -> Any | None:
        """An instance with such fields, abstract ones; None where it takes more to make one."""
        cls = self.cls
        patterns = {name: layout.patterns for name, layout in self.layouts.items()}
        dense = [
            name
            for name, alternatives in patterns.items()
            if alternatives is not None and any(Dense in each.classes for each in alternatives)
        ]
        if set(dense) != set(field_names(cls).children):
            return None
        value: Any = object.__new__(cls)
        state = value.__dict__
        state["_given_shape"] = state["_given_dtype"] = None
        for each in fields(cls):
            if each.default is not MISSING:
                state[each.name] = each.default
            elif each.default_factory is not MISSING:
                state[each.name] = each.default_factory()
        if any(name not in state for name in field_names(cls).auxiliary):
            return None
        for parameter, operand in zip(self.parameters, operands, strict=True):
            try:
                dtype = np.dtype(operand.dtype)
            except TypeError:  # that of a key, which numpy does not have
                return None
            state[parameter.name] = jax.ShapeDtypeStruct(operand.shape, dtype)
        return value


def _required(function: Any) -> list[str]:
    """What a method asks for besides `self`."""
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        return []
    _, *others = inspect.signature(plain).parameters.values() or [None]
    return [
        f"`{each.name}`"
        for each in others
        if each is not None
        and each.default is inspect.Parameter.empty
        and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    ]


def _is_below_zero(parameters: Sequence[Parameter]) -> bool:
    """Whether some sizes that are expressions, added up, are negative whatever the names stand for.

    None of them may be: `m-n` and `n-m-1` add up to -1.
    """
    sizes = [
        axis.size
        for parameter in parameters
        if len(parameter.alternatives) == 1
        for _, axis in parameter.alternatives[0].dims.positions
        if isinstance(axis.size, Polynomial)
    ]
    for count in (1, 2, 3):
        for chosen in itertools.combinations(sizes, count):
            total: Size = 0
            for size in chosen:
                total = size + total
            if isinstance(total, int) and total < 0:
                return True
    return False


def _of_axes_alone(patterns: Sequence[ArrayPattern]) -> tuple[ArrayPattern, ...]:
    """`patterns` of dense arrays: the classes that fields may hold never contradict each other."""
    return tuple(replace(each, classes=frozenset({Dense}), predicates=()) for each in patterns)


def _contradiction(
    parameters: Sequence[Parameter],
    operands: Sequence[Operand],
    result: ResultPattern,
    dense: Any,
    given: str,
) -> str | None:
    """What `materialize` gave for fields like these, if that is not as annotated."""
    if not is_array_like(dense):
        return f"gives {type(dense).__name__} for {given}; it is to give one array"
    if not result.items:
        return None
    got = describe(dense)
    alternatives = _of_axes_alone(result.items[0])
    whole = Signature.of(*parameters, Parameter("result", alternatives, text=result.text))
    if whole.match((*operands, got)) is not None:
        return None
    names = [*(parameter.name for parameter in parameters), "the result"]
    reason = in_terms_of(names, mismatch(whole, (*operands, got)))
    return f"gives {got} for {given}, and is annotated {result.text}: {reason}"


_USUAL_DTYPES = ("float32", "int32", "bool", "complex64", "uint8", "int8")


def _of_different_sizes(
    parameters: Sequence[Parameter], witness: Sequence[Operand]
) -> tuple[Operand, ...]:
    """`witness` with a size of its own for each axis name, so that no two are equal by chance."""
    fresh = itertools.chain((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37), itertools.repeat(41))
    sizes: dict[str, int] = defaultdict(lambda: next(fresh))

    def size(axis: Axis) -> int:
        if isinstance(axis.size, int):
            return axis.size
        return sizes[axis.size] if isinstance(axis.size, str) else next(fresh)

    def of(pattern: ArrayPattern, operand: Operand) -> Operand:
        names = [name for name in _USUAL_DTYPES if pattern.dtypes >> dtype_bit(name) & 1]
        axes = (*pattern.dims.left, *pattern.dims.right)
        return Operand(Dense, (names or [operand.dtype])[0], tuple(size(axis) for axis in axes))

    return tuple(
        of(parameter.alternatives[0], operand)
        for parameter, operand in zip(parameters, witness, strict=True)
    )
