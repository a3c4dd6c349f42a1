"""Mismatch: why a signature does not accept some operands, in a clause."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from typedqax._dims import Axis, Bindings, Dims, Shape, match_shapes
from typedqax._polynomial import Polynomial, names_of
from typedqax._signature import ArrayPattern, Form, Operand, Signature, consistent, shown_class


def mismatch(signature: Signature, operands: Sequence[Operand]) -> str:
    """The first constraint that fails in the alternative that comes nearest."""
    best: tuple[int, str] = (-1, "it accepts no operands")
    for form in signature.forms:
        for score, reason in _reasons(form, operands):
            if score > best[0]:
                best = (score, reason)
    return best[1]


def _reasons(form: Form, operands: Sequence[Operand]) -> Iterator[tuple[int, str]]:
    """(how far it came, what failed) for each way to read the form."""
    arity = len(operands)
    if not form.accepts_arity(arity):
        yield 0, f"{_count(form)} expected, got {arity}"
        return
    per_operand = [p.alternatives for p in form.at(arity)]
    for chosen in itertools.islice(consistent(per_operand), 64):
        yield _first_failure(chosen, operands)


def _count(form: Form) -> str:
    most = len(form.parameters)
    if form.rest is not None:
        return f"{form.least} or more operands"
    text = str(most) if most == form.least else f"{form.least} to {most}"
    return f"{text} operand{'s' if most != 1 else ''}"


def _first_failure(chosen: Sequence[ArrayPattern], operands: Sequence[Operand]) -> tuple[int, str]:
    for index, (pattern, operand) in enumerate(zip(chosen, operands, strict=True)):
        score = 1 + index
        if pattern.classes.isdisjoint(operand.cls.__mro__):
            wanted = " or ".join(sorted(map(shown_class, pattern.classes)))
            return score, f"operand {index + 1}: {shown_class(operand.cls)}, expected {wanted}"
    base = 1 + len(operands)
    for index, (pattern, operand) in enumerate(zip(chosen, operands, strict=True)):
        if not pattern.accepts_kind(operand):
            wanted = pattern.text or "another dtype"
            return base + index, f"operand {index + 1}: dtype {operand.dtype}, expected {wanted}"
    base += len(operands)
    for index, (pattern, operand) in enumerate(zip(chosen, operands, strict=True)):
        rank, dims = len(operand.shape), pattern.dims
        if rank < dims.fixed or (dims.section is None and rank > dims.fixed):
            more = " or more" if dims.section is not None else ""
            return (
                base + index,
                f"operand {index + 1}: rank {rank}, expected {dims.fixed}{more}",
            )
    return base + len(operands), _shape_failure(chosen, operands)


def _shape_failure(chosen: Sequence[ArrayPattern], operands: Sequence[Operand]) -> str:
    bound: Bindings = {}
    origins: dict[str, str] = {}
    for index, (pattern, operand) in enumerate(zip(chosen, operands, strict=True)):
        shape, dims = operand.shape, pattern.dims
        for position, wanted in dims.plain:
            here = f"operand {index + 1}, axis {position % len(shape)}"
            size = shape[position]
            if isinstance(wanted, str):
                known = bound.setdefault(wanted, size)
                if known != size:
                    return f"axis {wanted} is {size} ({here}), but {known} from {origins[wanted]}"
                origins.setdefault(wanted, here)
            elif wanted != size:
                return f"{here}: size {size}, expected {wanted}"
        section = dims.section
        if section is not None and section.name is not None and not section.broadcast:
            name = "*" + section.name
            part = shape[len(dims.left) : len(shape) - len(dims.right)]
            known = bound.setdefault(name, part)
            if known != part:
                return (
                    f"axes {name} are {_sizes(part)} (operand {index + 1}), "
                    f"but {_sizes(known)} from {origins[name]}"
                )
            origins.setdefault(name, f"operand {index + 1}")
    for index, (pattern, operand) in enumerate(zip(chosen, operands, strict=True)):
        shape, dims = operand.shape, pattern.dims
        for position, axis in dims.deferred:
            known = {name: size for name, size in bound.items() if name[0] != "*"}
            only = [Dims((axis,)), Dims(tuple(map(Axis, known)))]
            if match_shapes(only, [(shape[position],), tuple(known.values())]) is None:
                here = f"operand {index + 1}, axis {position % len(shape)}"
                due = _due(axis, bound, origins)
                return f"{here}: size {shape[position]} does not fit {axis}{due}"
    parts = ", ".join(
        f"{_sizes(o.shape)} for {p.dims}" for p, o in zip(chosen, operands, strict=True)
    )
    return f"the shapes do not fit together: {parts}"


def _due(axis: Axis, bound: Bindings, origins: Mapping[str, str]) -> str:
    """What an axis comes to with the sizes that others have; empty where not all are known."""
    if not isinstance(axis.size, str | Polynomial):
        return ""
    names = [axis.size] if isinstance(axis.size, str) else sorted(names_of(axis.size))
    try:
        size = bound[axis.size] if isinstance(axis.size, str) else axis.size.evaluate(bound)
        known = " and ".join(f"{name} = {bound[name]} from {origins[name]}" for name in names)
    except (KeyError, ZeroDivisionError):
        return ""
    return f", which is {size} ({known})"


def _sizes(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
