"""The functions under the transform that run in a thread, and what an implicit array is in them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import jax
import numpy as np

from typedqax import _jax
from typedqax._aval import is_array_like, look
from typedqax._call import argument_in_handlers, bodies_running, running_handler
from typedqax._closure import closes_over
from typedqax._dispatch import Tables
from typedqax._fields import field_layouts
from typedqax._higher_order import rules
from typedqax._materialization import Materialization
from typedqax._primitives import as_equation
from typedqax._run import Run
from typedqax._trace import (
    ImplicitTrace,
    ImplicitTracer,
    carried_tables,
    densify,
    enclosing_trace,
    lower,
    runs_at_once,
)
from typedqax._value import (
    EXTENT,
    Flattened,
    ImplicitValue,
    One,
    child_values,
    is_value,
    one_leaf_asked,
)


class Scope:
    """A function under the transform, from its call until it returns.

    With an implicit argument, or one that the function closes over, its trace is entered at once.
    Otherwise it would only take time: the function runs as it is until it makes an implicit array,
    or needs one array of what it came to in some other way, when the trace is entered for the rest
    of it. What it gives back is lowered.

    Attributes:
        tables: the handlers that decide in it: its own, or those that decide where it is called.
        result: what the function gave back; kept here, so that no other frame keeps its tracers.
        gave: the class of an implicit array that a function gave which JAX differentiated in it.
    """

    __slots__ = ("_base", "_bodies", "_inside", "_late", "_trace", "gave", "result", "tables")

    def __init__(self, tables: Tables | None) -> None:
        self.tables = deciding_tables() if tables is None else tables
        self._trace: ImplicitTrace | None = None
        self.result: Any = None
        self.gave: str | None = None
        # Entered while it ran: what JAX differentiates or maps in it may lie outside of that.
        self._late = True

    def __enter__(self) -> Scope:
        self._base = _jax.current_trace()
        self._bodies = bodies_running()
        self._inside = _jax.swap_inside(enclosing_trace() is not None)
        _scopes.stack.append(self)
        one_leaf_asked.append(_one_leaf)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes.stack.pop()
        one_leaf_asked.pop()
        _jax.swap_inside(self._inside)
        if self._trace is not None:
            _jax.set_trace(self._base)

    def runs(self) -> bool:
        """Whether it is the function's own code that runs, not that of a handler it came to."""
        return self._bodies == bodies_running()

    def enter(self) -> ImplicitTrace | None:
        """The trace of this function, entered now; None in functions inside of it."""
        if _jax.current_trace() is not self._base or enclosing_trace() is not None:
            return None
        if self._trace is None:
            self._trace = ImplicitTrace(self._base, Run(self.tables, RULES))
        _jax.set_trace(self._trace)
        _jax.swap_inside(True)
        return self._trace

    def is_around_all(self) -> bool:
        """Whether the trace here is around all that JAX differentiates or maps in the function."""
        return not self._late or enclosing_trace() is not self._trace

    def enter_early(self, function: object) -> None:
        """Enter the trace of `function` before it runs, where that may be too late in it.

        So it is where it closes over an implicit array that is staged, mapped or differentiated in
        it, or is used by a derivative rule, which JAX runs when the function is over. Where more
        hangs on the function than is looked at, it is entered unless all runs at once: there a
        third is added to the time of each primitive.
        """
        closes = closes_over(is_value, function)
        if closes or (closes is None and not runs_at_once(self._base)):
            self._late = self.enter() is None

    def leave(self) -> object:
        """The result, without tracers, when the function is over."""
        trace, self._trace = self._trace, None
        result, self.result = self.result, None
        if trace is None:
            return result
        result = lower(result, trace.run)
        if _jax.checks_leaks():
            with _jax.ensure_no_leaks(trace):
                del trace
        return result


RULES: Final = rules(around_resumed=Scope)
"""The rules of every family; the functions that JAX calls itself run in a scope, as any do."""


class _Scopes(threading.local):
    """The functions under the transform that run in this thread, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Scope] = []


_scopes = _Scopes()


def _running_scope() -> Scope | None:
    """The function under the transform whose own code runs in this thread."""
    scope = _scopes.stack[-1] if _scopes.stack else None
    return scope if scope is not None and scope.runs() else None


def enter_where_made() -> None:
    """Enter the trace of the function that runs here, since it has made an implicit array."""
    scope = _running_scope()
    if scope is not None:
        scope.enter()


def deciding_tables() -> Tables:
    """The tables that decide here.

    They are those of the innermost function under the transform, or of the handler that runs in it,
    or of the enclosing transform, or the installed ones. JAX carries the first along, but not into
    a function that it stages.
    """
    carried = carried_tables(_jax.current_trace())
    if carried is not None:
        return carried
    scope = _running_scope()
    if scope is not None:
        return scope.tables
    frame = running_handler()
    if frame is not None:
        return frame.call.trace.run.tables
    trace = enclosing_trace()
    return Tables.of() if trace is None else trace.run.tables


# --- an implicit array as one array --------------------------------------------------------------


def one_array(value: ImplicitValue, asked_by: str = "an inner function") -> Any:
    """One array for `value`, closed over or made in a function under the transform, to JAX.

    That is a tracer. In an inner function that JAX stages and remembers (under jit, in the body of
    a loop) it is the result of an equation, which is the array where the function is applied; or
    the dense array, which is said, where the trace of the function outside was not entered in time.
    Outside of functions under the transform there is none.
    """
    trace = _reachable_trace(value)
    if trace is None and enclosing_trace() is None:
        scope = _running_scope()
        if scope is None:
            return None
        trace = scope.enter()
        if trace is None:
            return densify_for(value, asked_by, _PASS_IT)
    return as_equation(value) if trace is None else trace.lift_made(value)


def _one_result(value: ImplicitValue, asked_by: str) -> jax.Array:
    """One array for `value`, the result of a function that JAX differentiates or maps.

    It is the result of an equation, or dense where no transform will see that. JAX may have left
    the trace of that function by then; its leaves tell it.
    """
    traces: list[Any] = [
        leaf._trace
        for leaf in jax.tree.leaves(value)
        if isinstance(leaf, _jax.Tracer) and isinstance(leaf._trace, _jax.PASSING_TRACES)
    ]
    with _jax.under(max(traces, key=_depth, default=_jax.current_trace())):
        if enclosing_trace() is None or not (traces or _is_around_all()):
            return densify_for(value, asked_by, "return `tq.materialize(...)` of it")
        return as_equation(value)


def _is_around_all() -> bool:
    """Whether the trace here is around all that JAX differentiates or maps in the function."""
    scope = _running_scope()
    return scope is None or scope.is_around_all()


def _depth(trace: Any) -> int:
    """How many traces are around this one."""
    return sum(1 for _ in _jax.around(trace))


def may_hide(leaves: Sequence[Any]) -> bool:
    """Whether one of these operands may stand for an implicit array that is not seen here.

    In an inner function of one that has implicit arguments, those themselves and the tracers of
    JAX's own traces may: they show what they are where the inner function is applied, not here.
    """
    if enclosing_trace() is None:
        return False
    outward = _jax.around(_jax.current_trace())
    inner = list(itertools.takewhile(lambda trace: type(trace) is not ImplicitTrace, outward))
    return any(
        type(leaf) is ImplicitTracer or any(leaf._trace is each for each in inner)
        for leaf in leaves
        if isinstance(leaf, _jax.Tracer)
    )


def to_jax(leaf: Any) -> Any:
    """What JAX's functions are to see of an operand: one array for an implicit one."""
    return one_array(leaf) if is_value(leaf) else leaf


_PASS_IT = "pass it to the function under use_implicit_args as an argument"


def _one_leaf(value: ImplicitValue) -> Flattened | None:
    """`value` as the one leaf that JAX is to see of it; None where it is to see the fields.

    To a derivative, to vmap, to collectives and to whoever walks a tree, an array is its numbers:
    by its fields they would answer another question. vmap takes and makes stacks by the leaves,
    along axis 0.
    """
    scope = _running_scope()
    if scope is None:
        return None
    flattening = _jax.flattens_for()
    if flattening is None:
        return None
    if flattening.function == "tree":
        return _for_trees(value, flattening.trees)
    if not _is_complete(value):
        return None
    if flattening.function == "vmap":
        axes = jax.tree.leaves(flattening.axes, is_leaf=is_value)
        if any(map(is_value, axes)):
            return None  # they are told for its fields
        by_leaves = can_be_stacked(value) if flattening.of_result else look(value).batch
        if by_leaves and set(axes) <= {0}:
            return None
    asked_by = f"jax.{flattening.function}"
    if flattening.of_result:
        scope.gave = type(value).__name__
        return (_one_result(value, asked_by),), One()
    one = one_array(value, asked_by)
    return None if one is None else ((one,), One())


def _for_trees(value: ImplicitValue, trees: tuple[Any, ...]) -> Flattened | None:
    """`value` as the one leaf that whoever walks these trees is to see; None for its fields.

    They are for trees of which one has a part of an array's fields, or says something of each. A
    mask that says the same of all of them says it of the array.
    """
    others = jax.tree.leaves(trees, is_leaf=is_value)
    for each in (value, *filter(is_value, others)):
        if not _is_complete(each) and not _is_mask(each):
            return None
    if _is_mask(value):
        said = next(_field_leaves(value))
        return (said,), One(None if said is None else jax.tree.structure(value))
    one = one_array(value)
    return None if one is None else ((one,), One(jax.tree.structure(value)))


def is_inside() -> bool:
    """Whether an implicit array can be one array to JAX here."""
    return enclosing_trace() is not None or _running_scope() is not None


def _reachable_trace(value: ImplicitValue) -> ImplicitTrace | None:
    """The trace of the transform whose tracers may be used here.

    The traces of derivatives and of vmap pass on what is not theirs. A value whose leaves may be
    tracers of those belongs into them, and not outside; one of tracers from outside does not.
    """
    current = _jax.current_trace()
    outward = _jax.around(current)
    trace = next((each for each in outward if not isinstance(each, _jax.PASSING_TRACES)), None)
    if type(trace) is not ImplicitTrace:
        return None
    if trace is not current:
        outside = list(_jax.around(trace))
        for leaf in jax.tree.leaves(value):
            if not isinstance(leaf, _jax.Tracer) or type(leaf) is ImplicitTracer:
                continue
            if not any(leaf._trace is each for each in outside):
                return None
    return trace


def densify_for(value: Any, asked_by: str, remedy: str = "") -> jax.Array:
    """`value` made dense because what is no primitive needs its numbers; said, or forbidden.

    Raises:
        MaterializationError: the policy forbids it.
    """
    trace = enclosing_trace()
    current = _jax.current_trace()
    run = Run(deciding_tables(), RULES) if trace is None else trace.run
    run.happened(
        Materialization.of(
            value,
            asked_by,
            [f"{asked_by} needs its numbers"],
            source=_jax.source_info_of_python(),
            argument=argument_in_handlers(value),
            remedy=remedy,
        )
    )
    value = lower_all(value)
    with _jax.under(current.parent if type(current) is ImplicitTrace else current):
        return densify(value, run, None, asked_by)


def lower_all(value: Any) -> Any:
    """`value` with the values behind the tracers of all transforms that are around this place."""
    for trace in _jax.around(_jax.current_trace()):
        if type(trace) is ImplicitTrace:
            value = lower(value, trace.run)
    return value


# --- trees of an implicit class that hold no arrays ----------------------------------------------


def can_be_stacked(value: ImplicitValue) -> bool:
    """Whether annotations tell a batch axis of every field from its own."""
    layouts = field_layouts(type(value))
    return bool(child_values(value)) and all(
        name in layouts
        and layouts[name].rank is not None
        and (not is_value(field) or can_be_stacked(field))
        for name, field in child_values(value)
    )


def _is_complete(value: ImplicitValue) -> bool:
    """Whether all fields hold arrays; axes, masks, specs and None stand in their place at times.

    So do numbers of Python's, where there are no others: they may be axes or masks. Beside an
    array they are numbers of the array, and one with a fraction always is.
    """
    leaves = list(_field_leaves(value))
    known = any(_is_array(leaf) or isinstance(leaf, (float, complex)) for leaf in leaves)
    return all(_is_array(leaf) or (known and _is_number(leaf)) for leaf in leaves)


def _is_mask(value: ImplicitValue) -> bool:
    """Whether the same truth value, or None, stands in place of all fields."""
    leaves = list(_field_leaves(value))  # none, where a field is an empty container
    return bool(leaves) and all(
        (each is None or isinstance(each, (bool, np.bool_)))
        and type(each) is type(leaves[0])
        and each == leaves[0]
        for each in leaves
    )


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool)


def _field_leaves(value: ImplicitValue) -> Iterator[Any]:
    fields = [field for _, field in child_values(value)] or [value.__dict__.get(EXTENT)]
    for leaf in jax.tree.leaves(fields, is_leaf=lambda leaf: leaf is None or is_value(leaf)):
        if is_value(leaf):
            yield from _field_leaves(leaf)
        else:
            yield leaf


def _is_array(leaf: Any) -> bool:
    return is_array_like(leaf) and not isinstance(leaf, jax.ShapeDtypeStruct)
