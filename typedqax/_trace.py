"""The trace in which implicit arrays stand for dense ones, its tracer, and how to become dense."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import (
    NOT_SLICED,
    aval_of,
    batch_axes,
    batched_fields,
    look,
    materialize_of,
)
from typedqax._contracts import check_materialized
from typedqax._dispatch import Tables, WeakTables
from typedqax._errors import ContractError
from typedqax._jax import Params, Primitive, Trace, Tracer
from typedqax._materialization import (
    Materialization,
    own_policy,
)
from typedqax._primitives import implicit_array_p, materialize_p, of_equation
from typedqax._run import Held, Run
from typedqax._value import (
    EXTENT,
    ImplicitValue,
    auxiliary_data,
    child_values,
    field_names,
    is_value,
    with_children,
)


class ImplicitTracer(_jax.AnyTracer):
    """An implicit array inside a function that runs under the transform."""

    __slots__ = ("_argument", "_stands_for")
    _trace: ImplicitTrace
    # A field of any other name that a user gives one is read from the array itself.
    _stands_for: ImplicitValue
    _argument: Argument | None

    def __init__(
        self, trace: ImplicitTrace, value: ImplicitValue, argument: Argument | None = None
    ) -> None:
        super().__init__(trace, _jax.varying_as(aval_of(value), value))
        _set_value(self, value)  # past __setattr__, which takes 0.3 us more
        _set_argument(self, argument)

    if not TYPE_CHECKING:

        @property  # so that isinstance(x, LoraMatrix) holds of the tracer that stands for one
        def __class__(self) -> type:
            return type(self._stands_for)

        @property  # so that dataclasses.replace and fields take it for one
        def __dataclass_fields__(self) -> Any:
            return type(self._stands_for).__dataclass_fields__

    def __getattr__(self, name: str) -> Any:
        value = object.__getattribute__(self, "_stands_for")
        fields = field_names(type(value))
        if name in fields.children or name in fields.auxiliary:
            return lift(value.__dict__[name], self._trace, _field(self._argument, name))
        for cls in type(value).__mro__:  # a method or property of the user's own
            if cls.__dict__.get("_is_dispatch_root", False):
                break
            if name in cls.__dict__ and not name.startswith("__"):
                found = cls.__dict__[name]
                return found.__get__(self, type(value)) if hasattr(found, "__get__") else found
        return Tracer.__getattr__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            object.__setattr__(self, name, value)
        except AttributeError:
            cls = type(self._stands_for)
            fields = (*field_names(cls).children, *field_names(cls).auxiliary)
            advice = f"a changed copy is dataclasses.replace(array, {name}=...)"
            if name not in fields:
                advice = f"and {name!r} is none of its fields ({', '.join(fields)})"
            raise AttributeError(
                f"{cls.__name__}.{name} cannot be assigned in a function under use_implicit_args, "
                f"where an array does not change; {advice}."
            ) from None

    def full_lower(self) -> Any:
        """This tracer: JAX asks before it says that one has leaked."""
        return self

    def materialize(self) -> jax.Array:
        """The dense array that this one stands for."""
        with _jax.under(self._trace.parent):
            return densify(self._stands_for, self._trace.run, self._argument)

    def _numbers(self, asked_by: str) -> Any:
        """The dense array, because Python or numpy asks for its numbers; said, or forbidden.

        Where there are none yet, under jit, JAX refuses to give them as it does for any array.
        """
        trace = self._trace
        trace.run.happened(
            Materialization.of(
                self._stands_for,
                asked_by,
                [f"{asked_by} needs its numbers"],
                source=trace.place(),
                argument=self._argument,
            )
        )
        with _jax.under(trace.parent):
            return densify(self._stands_for, trace.run, self._argument, asked_by)

    if not TYPE_CHECKING:

        def to_concrete_value(self) -> Any:
            """The numbers, where a function of JAX's cannot do without: `jnp.unique`, say."""
            asked_by = _jax.needs_numbers()
            if asked_by is None or not all(
                map(_jax.is_concrete, jax.tree.leaves(self._stands_for))
            ):
                return None
            return _jax.concrete_value(self._numbers(asked_by))

        def __bool__(self) -> bool:
            return bool(self._numbers("bool"))

        def __int__(self) -> int:
            return int(self._numbers("int"))

        def __float__(self) -> float:
            return float(self._numbers("float"))

        def __complex__(self) -> complex:
            return complex(self._numbers("complex"))

        def __index__(self) -> int:
            return self._numbers("index").__index__()

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            return np.asarray(self._numbers("numpy.asarray"), dtype=dtype)

        def __format__(self, spec: str) -> str:
            return format(self._numbers("format"), spec) if spec else str(self)

        def item(self, *args: int) -> Any:
            """The element at an index, as a Python scalar."""
            return self._numbers("item").item(*args)

        def tolist(self) -> Any:
            """The elements as nested lists."""
            return self._numbers("tolist").tolist()


_set_value = ImplicitTracer.__dict__["_stands_for"].__set__
_set_argument = ImplicitTracer.__dict__["_argument"].__set__


Callers: TypeAlias = tuple[_jax.SourceInfo, ...]
"""Where the inner function was called that a trace is in, and those around it, innermost first."""


class ImplicitTrace(_jax.Trace):
    """Applies primitives to implicit arrays by their handlers; dense values pass it unwrapped."""

    __slots__ = ("callers", "is_inner", "parent", "resumed", "run", "tag")

    def __init__(
        self, parent: Trace, run: Run, callers: Callers = (), *, resumed: bool = False
    ) -> None:
        _jax.Trace.__init__(self)
        # The base sets True: high-level primitives would then be expanded before the parent sees
        # them, and lose their custom rules.
        self.requires_low = False
        self.parent = parent
        self.run = run
        self.tag = _jax.TraceTag()
        self.callers = callers
        # In it is a function of the user's that JAX calls itself, maybe when what made it is over.
        self.resumed = resumed
        # Another is around it.
        self.is_inner = any(type(each) is ImplicitTrace for each in _jax.around(parent))

    # JAX looks for `parent_trace` when it walks from a trace to the outermost one.
    @property
    def parent_trace(self) -> Trace:
        """The trace outside this one."""
        return self.parent

    def owns(self, value: Any) -> bool:
        """Whether `value` is a tracer of this trace's run."""
        return type(value) is ImplicitTracer and value._trace.run.root is self.run.root

    def lower(self, value: Any) -> Any:
        """The value behind a tracer of this run; anything else as it is."""
        if type(value) is ImplicitTracer and value._trace.run.root is self.run.root:
            return value._stands_for
        return value

    def argument_of(self, value: Any) -> Argument | None:
        """The argument that a tracer of this run stands for; None where that is not known."""
        if type(value) is ImplicitTracer and value._trace.run.root is self.run.root:
            return value._argument
        return None

    def lift(self, value: Any, argument: Argument | None = None) -> Any:
        """A tracer for an implicit array; anything else as it is."""
        return ImplicitTracer(self, value, argument) if is_value(value) else value

    def lift_made(self, value: Any, argument: Argument | None = None) -> Any:
        """As `lift`, for an array made or closed over where this trace runs.

        Tracers that it holds in its fields are lowered first.
        """
        if not is_value(value):
            return value
        return ImplicitTracer(self, lower(value, self.run), argument)

    def drawn(self, value: Any) -> Any:
        """A tracer of this trace for one of what it is a draft for; anything else as it is."""
        if type(value) is ImplicitTracer and self.run.draws_on(value._trace.run):
            return ImplicitTracer(self, value._stands_for)
        return value

    def place(self) -> _jax.SourceInfo:
        """Where the primitive being processed was applied.

        JAX's own record of the stack ends where an inner function starts: one that is all JAX's own
        (relu, say) has no line of the user's, and the line that calls it is the one to name.
        """
        source = _jax.source_info()
        for caller in self.callers:
            if _jax.user_frame(source) is not None:
                break
            source = _jax.called_from(caller, source)
        if _jax.user_frame(source) is None and not self.run.root.deferred:
            return _jax.source_info_of_python()  # `use_implicit_args(jnp.tanh)` has no line itself
        return source

    def as_caller(self) -> Callers:
        """Where an inner function is called from here, for the trace inside it."""
        return (_jax.source_info(), *self.callers)

    def process_primitive(
        self, primitive: Primitive, operands: Sequence[Any], params: Params, /
    ) -> Any:
        if primitive is implicit_array_p:
            return self._process_implicit_array(operands, params)
        if primitive is materialize_p:
            return self._process_materialize(*operands)
        root = self.run.root
        own = foreign = False
        for operand in operands:
            if type(operand) is ImplicitTracer:
                if operand._trace.run.root is root:
                    own = True
                else:
                    foreign = True
        if foreign and self.resumed:
            operands = list(map(self._adopted, operands))
            own = own or any(map(self.owns, operands))
        if not own and (
            primitive.name not in self.run.rules.holding or not self._has_part_in(primitive, params)
        ):
            return _jax.bind_under(self.parent, primitive, operands, params)
        values = [self.lower(operand) for operand in operands]
        arguments = [self.argument_of(operand) for operand in operands]
        results = self.run.rules.primitive(self, primitive, values, params, arguments)
        return results if primitive.multiple_results else results[0]

    def _process_implicit_array(self, operands: Sequence[Any], params: Params) -> Any:
        if self.resumed:
            operands = list(map(self._adopted, operands))
        return self.lift(of_equation(params, list(map(self.lower, operands))))

    def _process_materialize(self, operand: Any) -> Any:
        if self.resumed:
            operand = self._adopted(operand)
        if self.owns(operand):
            with _jax.under(self.parent):
                return densify(operand._stands_for, self.run.quieted())
        if not self.is_inner:  # no other will see what it is
            return operand
        return _jax.bind_under(self.parent, materialize_p, [operand], {})

    def _has_part_in(self, primitive: Primitive, params: Params) -> bool:
        """Whether a function that dense operands are passed to is a part of what runs here."""
        held = self.run.rules.held(primitive, params)
        return held is Held.ARRAY or (held is Held.RULE and not runs_at_once(self.parent))

    def _adopted(self, operand: Any) -> Any:
        """`operand`; a tracer of this trace for one of a function that is over.

        A backward rule that closes over an implicit argument brings it: that of an inner function
        belongs to another run, which rewrote it.
        """
        if type(operand) is not ImplicitTracer:
            return operand
        root = operand._trace.run.root
        for trace in _jax.around(self):
            if type(trace) is ImplicitTrace and trace.run.root is root:
                return operand
        return ImplicitTracer(self, operand._stands_for)

    def here(self) -> ImplicitTrace:
        """This trace, with the handlers that decide where a primitive is being applied.

        They are others than the run's own in a function that brings its tables: it carries them
        along, for JAX may apply what is in it elsewhere and later (`_jax.carrying`).
        """
        tables = carried_tables(self)
        if tables is None or tables == self.run.tables:
            return self
        run = self.run.with_tables(tables)
        return ImplicitTrace(self.parent, run, self.callers, resumed=self.resumed)

    def process_call(
        self, primitive: Primitive, function: _jax.WrappedFun, operands: Any, params: Params, /
    ) -> list[Any]:
        return self.run.rules.call(self.here(), primitive, function, operands, params)

    def process_custom_jvp_call(
        self,
        primitive: Primitive,
        function: _jax.WrappedFun,
        jvp: _jax.WrappedFun,
        operands: Any,
        /,
        *,
        symbolic_zeros: bool,
    ) -> list[Any]:
        return self.run.rules.custom_jvp(
            self.here(), primitive, function, jvp, operands, symbolic_zeros
        )

    def process_custom_vjp_call(
        self,
        primitive: Primitive,
        function: _jax.WrappedFun,
        fwd: _jax.WrappedFun,
        bwd: _jax.WrappedFun,
        operands: Any,
        /,
        *,
        out_trees: Callable[[], Any],
        symbolic_zeros: bool,
    ) -> list[Any]:
        return self.run.rules.custom_vjp(
            self.here(), primitive, function, fwd, bwd, operands, out_trees, symbolic_zeros
        )

    def process_shard_map(
        self, primitive: Primitive, function: _jax.WrappedFun, operands: Any, /, **params: Any
    ) -> list[Any]:
        return self.run.rules.shard_map(self.here(), primitive, function, operands, params)

    def stage_value(self, val: Any) -> Any:
        return val if self.owns(val) else self.parent.stage_value(val)

    def cur_qdd(self, value: Any) -> Any:
        return _jax.cur_qdd(self.parent, value)


def carried_tables(trace: Trace) -> Tables | None:
    """The tables that the innermost function in `trace` which brought its own carries, if any."""
    item = _jax.carried()
    if type(item) is WeakTables:
        return item.tables(trace)
    return item if type(item) is Tables else None


def enclosing_trace() -> ImplicitTrace | None:
    """The innermost implicit trace that the current trace is, or is inside of."""
    for trace in _jax.around(_jax.current_trace()):
        if type(trace) is ImplicitTrace:
            return trace
    return None


def runs_at_once(trace: Trace) -> bool:
    """Whether what is bound to `trace` runs at once, with nothing but transforms of ours around."""
    return all(type(each) is ImplicitTrace or _jax.is_eager(each) for each in _jax.around(trace))


# --- values and tracers --------------------------------------------------------------------------


def lift(tree: Any, trace: ImplicitTrace, argument: Argument | None = None) -> Any:
    """`tree` with a tracer of `trace` in place of each implicit array."""
    if is_value(tree):
        return ImplicitTracer(trace, tree, argument)
    if isinstance(tree, (list, tuple, dict)):
        return jax.tree.map(trace.lift, tree, is_leaf=is_value)
    return tree


def lower(tree: Any, run: Run) -> Any:
    """`tree` with the values behind the tracers of `run`, those inside implicit arrays too."""

    def lower_leaf(leaf: Any) -> Any:
        if type(leaf) is ImplicitTracer and leaf._trace.run.root is run.root:
            return leaf._stands_for
        return leaf

    return jax.tree.map(lower_leaf, tree)


def has_implicit_field(value: ImplicitValue) -> bool:
    """Whether a field of `value` is, or holds, an implicit array."""
    for _, child in child_values(value):
        if is_value(child):
            return True
        if isinstance(child, (list, tuple, dict)) and any(
            is_value(leaf) for leaf in jax.tree.leaves(child, is_leaf=is_value)
        ):
            return True
    return False


def lift_fields(
    value: ImplicitValue, trace: ImplicitTrace, argument: Argument | None = None
) -> ImplicitValue:
    """A copy of `value` whose implicit fields are tracers of `trace`."""
    return with_children(
        value,
        {name: lift(child, trace, _field(argument, name)) for name, child in child_values(value)},
    )


def _field(argument: Argument | None, name: str) -> Argument | None:
    return None if argument is None else argument.field(name)


# --- becoming dense ------------------------------------------------------------------------------


def densify(
    value: ImplicitValue,
    run: Run,
    argument: Argument | None = None,
    needed_by: str | None = None,
) -> jax.Array:
    """The dense array that `value` stands for, computed under the current trace.

    What needs it is a primitive, say, or nothing where the user asks for it: that may make dense
    what must not become so otherwise, a masked array inside a LoRA matrix too.

    Raises:
        ContractError: `materialize` gave something of another shape or dtype than `value` has.
        MaterializationError: it gave an array that must not become dense.
    """
    meant = meaning(value, run, argument, needed_by)
    if not is_value(meant):
        dense: jax.Array = meant
        return dense
    _guard(meant, value, run, argument, needed_by)
    return densify(meant, run, None, needed_by)


def _guard(
    part: Any,
    whole: ImplicitValue,
    run: Run,
    argument: Argument | None,
    needed_by: str | None,
) -> None:
    """Refuse to make `part` dense where only `whole` was asked about, if its class says so."""
    if needed_by is None or not is_value(part) or own_policy(type(part)) != "error":
        return
    reason = f"{type(whole).__name__}, which it is inside of, becomes dense"
    source = _jax.source_info()
    remedy = f"keep {type(whole).__name__} from becoming dense there"
    run.happened(
        Materialization.of(
            part, needed_by, [reason], source=source, argument=argument, remedy=remedy
        )
    )


def meaning(
    value: ImplicitValue,
    run: Run,
    argument: Argument | None = None,
    needed_by: str | None = None,
) -> Any:
    """What `materialize` says that `value` is: a dense array, or another implicit one.

    Raises:
        ContractError: that has another shape or dtype than `value` has.
    """
    if needed_by is not None and run.will_refuse(value, needed_by):
        return _stand_in(value)
    batch = look(value).batch
    dense = (
        _densify_batched(value, batch, run, needed_by)
        if batch
        else _materialized(value, run, argument)
    )
    extent = value.__dict__.get(EXTENT)
    if extent is not None and _jax.splits_in_types():
        dense = _jax.resplit(dense, _jax.split_of(jax.typeof(extent))[:-1])
    return _jax.varying_as_leaves(dense, value)


def _materialized(value: ImplicitValue, run: Run, argument: Argument | None) -> Any:
    if has_implicit_field(value):
        trace = ImplicitTrace(_jax.current_trace(), run)
        with _jax.under(trace):
            dense = materialize_once(lift_fields(value, trace, argument))
        dense = lower(dense, run)
    else:
        dense = materialize_once(value)
        if type(dense) is ImplicitTracer:
            dense = dense._stands_for
    check_materialized(value, dense)
    return dense if is_value(dense) else _jax.strongly_typed(dense)


def _stand_in(value: ImplicitValue) -> jax.Array:
    """Any dense array of the type of `value`: for a draft that will not run, to be gone on with."""
    aval = aval_of(value)
    zeros: jax.Array = _jax.varying_as_leaves(jax.numpy.zeros(aval.shape, aval.dtype), value)
    return zeros


def materialize_once(value: ImplicitValue) -> Any:
    """What the class's own `materialize` gives for `value`.

    Raises:
        ContractError: it computes with the array itself, which would have to become dense for that.
    """
    running = _materializing.stack
    if any(_same_array(value, other) for other in running):
        raise _computes_with_itself(value)
    running.append(value)
    inside = _jax.swap_inside(enclosing_trace() is not None)
    try:
        return value.materialize()  # type: ignore[attr-defined]  # of ImplicitArray, abstract here
    finally:
        _jax.swap_inside(inside)
        running.pop()


def _same_array(left: ImplicitValue, right: ImplicitValue) -> bool:
    """Whether both are of one class, with the very same fields, auxiliary data and shape."""
    if type(left) is not type(right) or auxiliary_data(left) != auxiliary_data(right):
        return False
    extents = [getattr(each.__dict__.get(EXTENT), "shape", None) for each in (left, right)]
    fields = zip(child_values(left), child_values(right), strict=True)
    return extents[0] == extents[1] and all(a is b for (_, a), (_, b) in fields)


def _computes_with_itself(value: ImplicitValue) -> ContractError:
    name = type(value).__name__
    return ContractError(
        materialize_of(type(value)),
        f"computes with the {name} itself, which has to become dense for that, and so for ever.",
        advice="Compute with its fields.",
    )


class _Materializing(threading.local):
    """The arrays that are being made dense in this thread."""

    def __init__(self) -> None:
        self.stack: list[ImplicitValue] = []


_materializing = _Materializing()


def materializing() -> int:
    """How many `materialize` methods are running now in this thread."""
    return len(_materializing.stack)


def _densify_batched(
    value: ImplicitValue, batch: tuple[int, ...], run: Run, needed_by: str | None
) -> jax.Array:
    """As `densify`, with `materialize` mapped over the batch axes one after another."""
    batched = batched_fields(value, batch)
    mapped = {name: child for name, child in child_values(value) if name in batched}
    axes = {name: batch_axes(child, batch[0]) for name, child in mapped.items()}
    for name, axis in axes.items():
        if axis is NOT_SLICED:
            _guard(mapped[name], value, run, None, needed_by)
            mapped[name], axes[name] = densify(mapped[name], run, None, needed_by), 0

    def densify_one(children: dict[str, Any]) -> jax.Array:
        return densify(with_children(value, children), run, None, needed_by)

    dense: jax.Array = jax.vmap(densify_one, in_axes=(axes,))(mapped)
    return dense
