"""The array fields of an implicit class: what their annotations say, or why they cannot be."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from typedqax._annotations import (
    AnnotationError,
    check_names_bound,
    event_rank,
    field_patterns,
    no_leaf,
)
from typedqax._dims import Dims
from typedqax._errors import Problem, SignatureError
from typedqax._signature import ArrayPattern, Form, Parameter
from typedqax._value import ImplicitValue, field_names
from typedqax._written import WrittenClass


class FieldLayout(NamedTuple):
    """What the annotation of an array field says.

    Attributes:
        patterns: the alternatives of the annotation; None where it is not an array's.
        rank: how many axes the annotation names; None where it leaves that open.
    """

    patterns: tuple[ArrayPattern, ...] | None
    rank: int | None

    @property
    def whole_section(self) -> str | None:
        """The name of the axes, any number of them, that are the whole shape: `s` of `"*s"`."""
        names = {_whole_section(pattern.dims) for pattern in self.patterns or ()}
        return names.pop() if len(names) == 1 else None


def _whole_section(dims: Dims) -> str | None:
    section = dims.section
    return None if section is None or section.broadcast or dims.fixed else section.name


def field_layouts(cls: type[ImplicitValue]) -> Mapping[str, FieldLayout]:
    """What the annotations of the array fields of `cls` say.

    Raises:
        SignatureError: an annotation is no valid shape, or names something that does not exist.
    """
    layouts: Mapping[str, FieldLayout] | None = cls.__dict__.get("_field_layouts")
    if layouts is None:
        layouts, errors = read_fields(cls)
        if errors:
            raise errors[0]
        cls._field_layouts = layouts
    return layouts


def read_fields(
    cls: type[ImplicitValue],
) -> tuple[dict[str, FieldLayout], list[SignatureError]]:
    """What the annotations of the array fields of `cls` say, and why some of them say nothing."""
    layouts: dict[str, FieldLayout] = {}
    errors = []
    annotations = _child_annotations(cls)
    for name, (owner, annotation) in annotations.items():
        if isinstance(annotation, Problem):
            errors.append(field_error(owner, name, annotation))
            continue
        try:
            patterns = field_patterns(annotation)
        except AnnotationError as error:
            errors.append(field_error(owner, name, Problem(error.code, str(error))))
            continue
        shown = no_leaf(annotation)
        if shown is not None:
            errors.append(field_error(owner, name, no_leaf_problem(name, shown)))
            continue
        rank = None if patterns is None else event_rank(patterns)
        layouts[name] = FieldLayout(patterns, rank)
    fields = [Parameter(n, each.patterns) for n, each in layouts.items() if each.patterns]
    try:
        check_names_bound(Form(tuple(fields)), "another field")
    except AnnotationError as error:
        name = error.parameter or ""
        problem = Problem(error.code, f"{error.problem}; {error.advice}")
        errors.append(field_error(annotations[name][0], name, problem))
    return layouts, errors


def _child_annotations(cls: type[ImplicitValue]) -> dict[str, tuple[type, Any]]:
    """By field, the class that annotates it and the annotation, or what is wrong with that."""
    children = field_names(cls).children
    found: dict[str, tuple[type, Any]] = {}
    for base in reversed(cls.__mro__):
        raw = inspect.get_annotations(base)
        own = [name for name in children if name in raw]
        if not own:
            continue
        local_names = {
            **base.__dict__.get("_defining_locals", {}),
            **base.__dict__,
            base.__name__: base,
        }
        names = getattr(sys.modules.get(base.__module__), "__dict__", {})
        for name in own:
            found[name] = (base, _evaluated_annotation(raw[name], names, local_names))
    return found


def _evaluated_annotation(annotation: Any, names: dict[str, Any], local: dict[str, Any]) -> Any:
    """A postponed annotation as an object; what is wrong with it, where it has no value."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names, local)  # as inspect.get_annotations does
    except NameError as error:
        return Problem(
            "annotation",
            f"an annotation names {error.name!r}, which does not exist there; import it (not "
            f"only under TYPE_CHECKING), or define it before the class is first used",
        )
    except Exception as error:  # noqa: BLE001  # jaxtyping and Python raise many kinds
        code = "shape" if isinstance(error, ValueError) else "annotation"
        text = f"the annotation {annotation!r} has no value ({type(error).__name__}: {error})"
        return Problem(code, text)


def no_leaf_problem(name: str, shown: str) -> Problem:
    """That a field holds what is no array, and would be handed to JAX as one."""
    return Problem(
        "field",
        f"{shown} is no array, and a field is a leaf of the pytree: keep it as auxiliary data, "
        f"{name}: {shown} = aux_field()",
    )


def field_error(
    cls: type, name: str, problem: Problem, role: str = "an array field"
) -> SignatureError:
    """The error that a field of `cls` is none that an implicit array can have."""
    written = WrittenClass.of(cls)
    place = str(written.place(name)) if written.found else cls.__module__
    return SignatureError(f"{cls.__qualname__}.{name}", place, [problem], role=role)


def class_error(cls: type, problem: Problem) -> SignatureError:
    """The error that a class cannot be one of implicit arrays."""
    written = WrittenClass.of(cls)
    place = str(written.place()) if written.found else cls.__module__
    role = "a class of implicit arrays"
    return SignatureError(cls.__qualname__, place, [problem], role=role)
