"""The transform: a function of dense arrays becomes one that takes implicit arrays anywhere."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, overload

import jax

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import aval_of
from typedqax._call import Call, argument_in_handlers, running_handler
from typedqax._contracts import check_axes
from typedqax._dispatch import Tables, WeakTables
from typedqax._errors import TypedQaxError, UsageError, shown_argument
from typedqax._jax import Params, Primitive
from typedqax._materialization import materialization
from typedqax._primitives import materialize_p
from typedqax._run import Run
from typedqax._scope import (
    RULES,
    Scope,
    deciding_tables,
    lower_all,
    may_hide,
    to_jax,
)
from typedqax._table import HandlerTable
from typedqax._trace import (
    ImplicitTrace,
    densify,
    has_implicit_field,
    lift_fields,
    lower,
    materialize_once,
)
from typedqax._value import ImplicitValue, implicit_classes, is_value

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


# --- use_implicit_args ---------------------------------------------------------------------------


@overload
def use_implicit_args(
    f: F, /, *, handlers: HandlerTable | None = None, isolated: bool = False
) -> F: ...
@overload
def use_implicit_args(
    *, handlers: HandlerTable | None = None, isolated: bool = False
) -> Callable[[F], F]: ...
@_jax.api_boundary
def use_implicit_args(
    f: Any = None, /, *, handlers: HandlerTable | None = None, isolated: bool = False
) -> Any:
    """`f`, for implicit arrays in the place of any of its arrays.

    Primitives that meet an implicit array run the most specific handler that takes it; without
    one the array is materialized, which is said (see `materialization`). With nothing implicit in
    its arguments nor in what it closes over, `f` does what it does without.

    Args:
        f: a function, method, callable object or partial; its arguments are any pytrees.
        handlers: a table whose handlers go ahead of the installed ones, for all that `f` does.
            Without it, in a function that another transform runs, those of that one decide.
        isolated: only `handlers` are used, none that is installed.

    Raises:
        UsageError: `f` is no function that is done when it returns, or `handlers` no
            `HandlerTable`.

    Example:
        >>> import jax, jax.numpy as jnp, typedqax as tq
        >>> class Zeros(tq.ImplicitArray, materialization="allow"):
        ...     def materialize(self) -> jax.Array:
        ...         return jnp.zeros(self.shape, self.dtype)
        >>> f = tq.use_implicit_args(lambda x, y: x + y)
        >>> f(Zeros(shape=(3,), dtype=jnp.float32), jnp.ones(3))
        Array([1., 1., 1.], dtype=float32)
    """
    if f is None:
        return functools.partial(use_implicit_args, handlers=handlers, isolated=isolated)
    if not (callable(f) or isinstance(f, (staticmethod, classmethod))):
        raise UsageError(f"use_implicit_args takes a function, not {shown_argument(f)}.")
    _refuse_later(f)
    if handlers is not None and not isinstance(handlers, HandlerTable):
        raise UsageError(
            f"handlers= takes a HandlerTable, not {shown_argument(handlers)}: put rules into one "
            f"with HandlerTable(name, rule, ...)."
        )
    return _Transformed(f, Tables.of(handlers, isolated=isolated))


def _refuse_later(function: Any) -> None:
    """Refuse a function whose body runs after it has returned, when the transform is over."""
    for kind, is_kind in _LATER.items():
        if is_kind(function):
            raise UsageError(
                f"use_implicit_args: {shown_argument(function)} is a {kind}, whose body runs after "
                f"the call, when the transform is over. Transform what it calls, or let it return "
                f"a list."
            )


_LATER: Mapping[str, Callable[[Any], bool]] = {
    "generator function": inspect.isgeneratorfunction,
    "coroutine function": inspect.iscoroutinefunction,
    "asynchronous generator function": inspect.isasyncgenfunction,
}


class _Transformed:
    """What `use_implicit_args` gives back: callable as the function is, with its attributes."""

    def __init__(self, function: Any, tables: Tables) -> None:
        self._function, self._tables = function, tables
        functools.update_wrapper(self, function, updated=())

    @_jax.transform_boundary
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        tables = None if self._tables == Tables.of() else self._tables
        carrying = contextlib.nullcontext() if tables is None else _jax.carrying(_kept(tables))
        scope = Scope(tables)
        try:
            with scope, carrying:
                scope.result = apply(self._function, args, kwargs, tables, scope)
        except (TypeError, ValueError) as error:
            cause = error.__cause__
            if isinstance(cause, TypedQaxError) and "Error interpreting argument" in str(error):
                raise cause from None  # bind takes each TypeError for one about its operand
            _explain_pytree(error, scope.gave)
            raise
        return scope.leave()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bound as the function would be; `self` is one of its arguments then."""
        bind = getattr(type(self._function), "__get__", None)
        if bind is None:
            return self
        if isinstance(self._function, types.FunctionType):
            return self if instance is None else types.MethodType(self, instance)
        return _Transformed(bind(self._function, instance, owner), self._tables)

    def __getattr__(self, name: str) -> Any:
        if name in ("_function", "_tables"):  # not there yet: while it is unpickled or copied
            raise AttributeError(name)
        found = getattr(self._function, name)
        if name in ("lower", "trace", "eval_shape") and hasattr(self._function, "clear_cache"):
            # of a jitted function: what they work on has to be the transformed one
            return getattr(jax.jit(self), name)
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _Transformed(copy.deepcopy(self._function, memo), self._tables)

    def __reduce__(self) -> Any:
        """By its name where it is a decorated function, which its module has under that name."""
        found: Any = sys.modules.get(getattr(self._function, "__module__", None) or "")
        name = getattr(self._function, "__qualname__", "")
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name
        return _transformed, (self._function, self._tables.extra, self._tables.isolated)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Transformed):
            return NotImplemented
        return self._function == other._function and self._tables == other._tables

    def __hash__(self) -> int:
        return hash((self._function, self._tables))

    def __repr__(self) -> str:
        return f"use_implicit_args({self._function!r})"


def _kept(tables: Tables) -> Tables | WeakTables:
    """`tables` as what is staged keeps them: weakly, if they would keep a tracer of its own."""
    return WeakTables(tables) if tables.closed_over() else tables


def _transformed(function: Any, handlers: HandlerTable | None, isolated: bool) -> _Transformed:
    return _Transformed(function, Tables.of(handlers, isolated=isolated))


def apply(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tables: Tables | None = None,
    scope: Scope | None = None,
) -> Any:
    """`function` on arguments that may hold implicit arrays.

    Without `tables`, the handlers are those that decide where it is called: those of the enclosing
    transform, or the installed ones. Of a function that has a `scope`, which is one under the
    transform, reports say which argument an implicit array is.
    """
    current = _jax.current_trace()
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=is_value)
    outer = current if type(current) is ImplicitTrace else None
    same = outer is not None and (tables is None or tables == outer.run.tables)
    known: list[Argument | None] = []
    if outer is not None and not same:  # a table of its own inside another transform
        known = [outer.argument_of(leaf) for leaf in leaves]
        leaves = [outer.lower(leaf) for leaf in leaves]
    if not any(is_value(leaf) for leaf in leaves):
        if scope is not None:
            scope.enter_early(function)
        return function(*args, **kwargs)
    if outer is None:
        for leaf in filter(is_value, leaves):
            check_axes(leaf)
    if outer is None and may_hide(leaves):  # in what JAX stages, or maps, in a transform
        args, kwargs = jax.tree.unflatten(tree, [to_jax(leaf) for leaf in leaves])
        return function(*args, **kwargs)
    arguments = _arguments(function, args, kwargs, leaves, known, named=scope is not None)
    if outer is not None and same:
        args, kwargs = jax.tree.unflatten(tree, list(map(outer.lift_made, leaves, arguments)))
        return function(*args, **kwargs)
    run = Run(deciding_tables() if tables is None else tables, RULES)
    if scope is not None:
        _jax.swap_inside(True)
    result, trace = _run(function, leaves, arguments, tree, run)
    if _jax.checks_leaks():
        with _jax.ensure_no_leaks(trace):
            del trace
    if outer is not None:
        return jax.tree.map(outer.lift_made, result, is_leaf=is_value)
    return result


def _run(
    function: Callable[..., Any],
    leaves: list[Any],
    arguments: list[Argument | None],
    tree: Any,
    run: Run,
) -> tuple[Any, ImplicitTrace]:
    # In a frame of its own, so that none of its tracers is alive when leaks are looked for.
    trace = ImplicitTrace(_jax.current_trace(), run)
    lifted = list(map(trace.lift, leaves, arguments))
    with _jax.under(trace):
        # Inside, as under jit: what puts a pytree together may compute with it (flax nnx asks).
        args, kwargs = jax.tree.unflatten(tree, lifted)
        result = function(*args, **kwargs)
    return lower(result, run), trace


def _explain_pytree(error: TypeError | ValueError, gave: str | None) -> None:
    """Add to an error of JAX's, which found another pytree than it wanted, how that came."""
    text = str(error)
    if gave is not None and "unexpected tree structure" in text:
        error.add_note(
            f"A function that JAX differentiates here gave a {gave}. Let it return "
            f"`tq.materialize(...)` of that."
        )
    if not re.search(r"py_?tree|tree structure|custom node", text, re.IGNORECASE):
        return
    for cls in implicit_classes():
        if f"<class '{cls.__module__}.{cls.__qualname__}'>" in text or (
            f"CustomNode({cls.__name__}[" in text
        ):
            note = (
                f"A {cls.__name__} that was closed over, or made in the function, is one array to "
                f"derivatives, vmap and collectives, and a pytree of its fields to JAX's other "
                f"functions (scan, cond, jit, ...); a tree that has it does not agree with one "
                f"that has a dense array there. Pass it to the function under use_implicit_args as "
                f"an argument, or write `x = jnp.asarray(x)` with it first: then it is one array "
                f"to all of them, and stays implicit."
            )
            if note not in getattr(error, "__notes__", ()):  # a transform outside came this way
                error.add_note(note)
            return


def _arguments(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    leaves: list[Any],
    known: list[Argument | None],
    *,
    named: bool,
) -> list[Argument | None]:
    """The argument that each implicit leaf is: of an outer function, if it is known, or of this."""
    found = known or [argument_in_handlers(leaf) if is_value(leaf) else None for leaf in leaves]
    if not named:
        return found
    paths, _ = jax.tree_util.tree_flatten_with_path((args, kwargs), is_leaf=is_value)
    return [
        outer or (Argument(function, path) if is_value(leaf) else None)
        for outer, leaf, (path, _) in zip(found, leaves, paths, strict=True)
    ]


# --- one primitive -------------------------------------------------------------------------------


class HasPrimitive(Protocol[R_co]):
    """An op of `typedqax.ops`: it stands for a primitive, and says what that gives."""

    @property
    def primitive(self) -> Primitive:
        """The JAX primitive it stands for."""
        ...

    @property
    def bind(self) -> Callable[..., R_co]:
        """What applies it, and gives an array or a list of them."""
        ...


def apply_primitive(primitive: Primitive, operands: Sequence[Any], params: Params) -> Any:
    """`primitive` on operands that may be implicit, with dispatch, under the current trace."""
    if not any(is_value(operand) for operand in operands):
        return _jax.bind(primitive, _jax.varying_alike(operands), params)
    current = _jax.current_trace()
    if type(current) is ImplicitTrace:
        arguments = map(argument_in_handlers, operands)
        return _jax.bind(primitive, list(map(current.lift_made, operands, arguments)), params)
    trace = ImplicitTrace(current, Run(deciding_tables(), RULES))
    values = [o if is_value(o) else _jax.canonicalize(o) for o in operands]
    _refuse_missing_params(primitive, values, params)
    known = [argument_in_handlers(value) for value in values]
    results = Call.of(trace, primitive, values, params, known).results()
    return results if primitive.multiple_results else results[0]


def _refuse_missing_params(primitive: Primitive, values: Sequence[Any], params: Params) -> None:
    """Let JAX's own rule say which params are missing, before a handler has to do without."""
    avals = [aval_of(value) if is_value(value) else jax.typeof(value) for value in values]
    try:
        _jax.out_avals(primitive, avals, params)
    except TypeError as error:
        if "required keyword-only argument" in str(error):
            given = ", ".join(params) or "none"
            error.add_note(
                f"`{primitive.name}` was applied with the params: {given}. A primitive is given "
                f"all of them, as in default_handler({primitive.name}_p, x, axes=(0,)); "
                f"typedqax.ops.{primitive.name}.params lists them."
            )
        raise


@overload
def default_handler(primitive: Primitive, /, *operands: object, **params: object) -> jax.Array: ...
@overload
def default_handler(op: HasPrimitive[R], /, *operands: object, **params: object) -> R: ...
@_jax.transform_boundary
def default_handler(primitive: Any, /, *operands: Any, **params: Any) -> Any:
    """What `primitive` gives for `operands`, with dispatch.

    Called by a handler with its own primitive on its own operands, it goes on to the next most
    specific handler, and after the last one to materialization: the way to defer to a more general
    handler, such as that of a base class.

    Raises:
        UsageError: `primitive` is none.

    Example:
        >>> import jax, jax.numpy as jnp, typedqax as tq
        >>> tq.default_handler(jax.lax.add_p, jnp.ones(2), jnp.ones(2))
        Array([2., 2.], dtype=float32)
    """
    resolved = primitive if isinstance(primitive, Primitive) else _primitive_of(primitive)
    frame = running_handler()
    if frame is not None and frame.handles(resolved, operands):
        results = frame.proceed(params)
        current = _jax.current_trace()
        if type(current) is ImplicitTrace:
            results = [current.lift(result) for result in results]
        return results if resolved.multiple_results else results[0]
    if primitive is resolved:
        return apply_primitive(resolved, operands, params)
    return primitive.bind(*operands, **params)  # an op knows which params may be left out


def _primitive_of(op: Any) -> Primitive:
    found = getattr(op, "primitive", None)
    if not isinstance(found, Primitive):
        raise UsageError(
            f"default_handler takes a primitive or an op as its first argument, not "
            f"{shown_argument(op)}."
        )
    return found


# --- materialize ---------------------------------------------------------------------------------


@overload
def materialize(tree: jax.Array, /) -> jax.Array: ...
@overload
def materialize(tree: T, /) -> T: ...
@_jax.transform_boundary
def materialize(tree: Any, /) -> Any:
    """`tree` with the dense array in place of each implicit one, in functions that JAX stages too.

    Asked for, it is not reported.

    Raises:
        ContractError: a `materialize` method gives another shape or dtype than its array has.

    Example:
        >>> import typedqax as tq
        >>> from typedqax.arrays import Eye
        >>> tq.materialize({"w": Eye(2)})
        {'w': Array([[1., 0.],
               [0., 1.]], dtype=float32)}
    """
    current = _jax.current_trace()
    parent = current.parent if type(current) is ImplicitTrace else current
    run = Run(deciding_tables(), RULES, quiet=True)

    def dense(leaf: Any) -> Any:
        value = lower_all(leaf)
        if not is_value(value):
            return _jax.bind(materialize_p, [leaf], {}) if may_hide([leaf]) else leaf
        with _jax.under(parent):
            return densify(value, run)

    leaves, structure = jax.tree.flatten(tree, is_leaf=is_value)
    return jax.tree.unflatten(structure, [dense(leaf) for leaf in leaves])


def materialize_under_trace(value: Any) -> Any:
    """What `value.materialize()` gives, its implicit fields being what they are in the transform.

    Only shapes and dtypes are of interest: nothing is said, and no policy forbids it.
    """
    if not has_implicit_field(value):
        return materialize_once(value)
    run = Run(deciding_tables(), RULES, quiet=True)
    trace = ImplicitTrace(_jax.current_trace(), run)
    with materialization("allow", ImplicitValue), _jax.under(trace):
        result = materialize_once(lift_fields(value, trace))
    return lower(result, run)
