"""The trace in which implicit arrays stand for dense ones, and one primitive's way through it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import jax
import numpy as np

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import (
    NOT_SLICED,
    aval_of,
    batch_axes,
    batched_fields,
    describe,
    look,
    materialize_of,
)
from typedqax._contracts import check_materialized, check_results
from typedqax._declined import DECLINE
from typedqax._dispatch import ANY_PRIMITIVE, Candidate, Resolution, Tables, resolve
from typedqax._errors import ContractError, MaterializationError
from typedqax._handler import Handler
from typedqax._jax import Params, Primitive, Trace, Tracer
from typedqax._materialization import (
    InnerRefusal,
    Materialization,
    dense_bytes,
    is_forbidden,
    loses_meaning,
    own_policy,
    policy_for,
    refusal,
    report,
)
from typedqax._misses import misses
from typedqax._reason import Reason
from typedqax._recording import Application, kept_record, put_inside
from typedqax._rule import Entry
from typedqax._signature import Operand
from typedqax._value import (
    EXTENT,
    ImplicitValue,
    auxiliary_data,
    child_values,
    field_names,
    is_value,
    with_children,
)


class PrimitiveRule(Protocol):
    """How a primitive is applied to implicit operands when no handler takes it.

    It is given raw values, implicit or dense, and returns what it gives for them, or None where it
    cannot do better than materializing.
    """

    def __call__(self, call: Call, /) -> list[Any] | None: ...


@dataclass(frozen=True, slots=True)
class HigherOrderRules:
    """What the trace does with primitives that hold functions.

    Attributes:
        primitives: by primitive name; those that hold no function, but do not look at the numbers
            of an array, too.
        other: for every other primitive.
        call: `Trace.process_call`.
        custom_jvp: `Trace.process_custom_jvp_call`.
        custom_vjp: `Trace.process_custom_vjp_call`.
        shard_map: `Trace.process_shard_map`.
    """

    primitives: Mapping[str, PrimitiveRule]
    other: PrimitiveRule
    call: Callable[..., list[Any]]
    custom_jvp: Callable[..., list[Any]]
    custom_vjp: Callable[..., list[Any]]
    shard_map: Callable[..., list[Any]]


@dataclass(slots=True, eq=False)
class Run:
    """One application of the transform: what decides in it, and what was said in it.

    Its root tells its tracers from those of other runs; custom rules and inner functions enter
    further traces of the same run.

    Attributes:
        tables: the handlers that decide.
        rules: what is done with primitives that hold functions.
        quiet: nothing is said of materializations (an outer one was), though a class that must not
            become dense still refuses.
        deferred: this is a draft of what may run: what happens is noted, for an outer run to say,
            or to refuse, if that is what runs.
        events: what happened so far where that is deferred, for a cache of rewritten functions to
            say again.
        root: the run itself, or the one whose part with other tables this is.
    """

    tables: Tables
    rules: HigherOrderRules
    quiet: bool = False
    deferred: bool = False
    events: list[Application | Materialization] = field(default_factory=list)
    root: Run = field(init=False)
    _said: set[object] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.root = self

    def asks_of(self, value: ImplicitValue, primitive: str) -> bool:
        """Whether anybody is to be told that `value` becomes dense for `primitive`.

        Where not, what would be told need not be found out.
        """
        if kept_record() is not None:
            return not self.quiet
        if self.quiet:
            return own_policy(type(value)) == "error"
        return policy_for(type(value), primitive, dense_bytes(value)) != "allow"

    def happened(self, event: Application | Materialization) -> None:
        """Take note of `event`, and say so where nothing like it was said in this run.

        Raises:
            MaterializationError: the policy forbids it.
        """
        record = kept_record()
        if self.quiet:
            if record is None and isinstance(event, Materialization):
                self._refuse_meaningless(event)
            return
        if self.root.deferred:
            self.events.append(event)
        elif record is not None:
            record.events.append(event)
        elif isinstance(event, Materialization):
            self._say(event)

    def noted(self) -> list[Application | Materialization] | None:
        """Where what happens is noted; None where it is not."""
        if self.quiet:
            return None
        if self.root.deferred:
            return self.events
        record = kept_record()
        return None if record is None else record.events

    def _refuse_meaningless(self, event: Materialization) -> None:
        if own_policy(event.cls) == "error" and is_forbidden(event):
            if self.root.deferred:
                self.events.append(event)
            else:
                report(event)

    def _say(self, event: Materialization) -> None:
        key = _key_of(event)
        if key not in self._said:
            report(event)
            self._said.add(key)  # not before: what was refused is refused again

    def refusal(self, event: Materialization) -> MaterializationError:
        """The error that `event` is forbidden; where that is deferred, for an outer run to say."""
        return InnerRefusal(event) if self.root.deferred else refusal(event)

    def will_refuse(self, value: ImplicitValue, primitive: str) -> bool:
        """Whether it is noted, to be refused, that `value` loses its meaning for `primitive`."""
        return self.root.deferred and kept_record() is None and loses_meaning(value, primitive)

    def settle(self) -> None:
        """From here on nobody waits for deferred events.

        A derivative rule of a function inside may run later; what it does is said by itself.
        """
        self.deferred = False
        for event in self.events:
            if isinstance(event, Materialization):
                self._said.add(_key_of(event))

    def quieted(self) -> Run:
        """A run with the same handlers that says nothing."""
        return Run(self.tables, self.rules, quiet=True)

    def with_tables(self, tables: Tables) -> Run:
        """The part of this run in which other handlers decide."""
        part = Run(tables, self.rules, self.quiet, self.deferred, self.events, _said=self._said)
        part.root = self.root
        return part


def _key_of(event: Materialization) -> object:
    frame = _jax.user_frame(event.source)
    return event.cls, event.primitive, frame and (frame.file, frame.line)


class ImplicitTracer(_jax.AnyTracer):
    """An implicit array inside a function that runs under the transform."""

    __slots__ = ("argument", "value")
    _trace: ImplicitTrace
    value: ImplicitValue
    argument: Argument | None

    def __init__(
        self, trace: ImplicitTrace, value: ImplicitValue, argument: Argument | None = None
    ) -> None:
        super().__init__(trace, _jax.varying_as(aval_of(value), value))
        _set_value(self, value)  # past __setattr__, which takes 0.3 us more
        _set_argument(self, argument)

    if not TYPE_CHECKING:

        @property  # so that isinstance(x, LoraMatrix) holds of the tracer that stands for one
        def __class__(self) -> type:
            return type(self.value)

        @property  # so that dataclasses.replace and fields take it for one
        def __dataclass_fields__(self) -> Any:
            return type(self.value).__dataclass_fields__

    def __getattr__(self, name: str) -> Any:
        value = object.__getattribute__(self, "value")
        fields = field_names(type(value))
        if name in fields.children or name in fields.auxiliary:
            return lift(value.__dict__[name], self._trace, _field(self.argument, name))
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
            cls = type(self.value)
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
            return densify(self.value, self._trace.run, self.argument)

    def _numbers(self, asked_by: str) -> Any:
        """The dense array, because Python or numpy asks for its numbers; said, or forbidden.

        Where there are none yet, under jit, JAX refuses to give them as it does for any array.
        """
        trace = self._trace
        trace.run.happened(
            Materialization.of(
                self.value,
                asked_by,
                [f"{asked_by} needs its numbers"],
                source=trace.place(),
                argument=self.argument,
            )
        )
        with _jax.under(trace.parent):
            return densify(self.value, trace.run, self.argument, asked_by)

    if not TYPE_CHECKING:

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


_set_value = ImplicitTracer.__dict__["value"].__set__
_set_argument = ImplicitTracer.__dict__["argument"].__set__

Callers: TypeAlias = tuple[_jax.SourceInfo, ...]
"""Where the inner function was called that a trace is in, and those around it, innermost first."""


class ImplicitTrace(_jax.Trace):
    """Applies primitives to implicit arrays by their handlers; dense values pass it unwrapped."""

    __slots__ = ("callers", "parent", "run", "tag")

    def __init__(self, parent: Trace, run: Run, callers: Callers = ()) -> None:
        _jax.Trace.__init__(self)
        # The base sets True: high-level primitives would then be expanded before the parent sees
        # them, and lose their custom rules.
        self.requires_low = False
        self.parent = parent
        self.run = run
        self.tag = _jax.TraceTag()
        self.callers = callers

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
            return value.value
        return value

    def argument_of(self, value: Any) -> Argument | None:
        """The argument that a tracer of this run stands for; None where that is not known."""
        if type(value) is ImplicitTracer and value._trace.run.root is self.run.root:
            return value.argument
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
        return source

    def as_caller(self) -> Callers:
        """Where an inner function is called from here, for the trace inside it."""
        return (_jax.source_info(), *self.callers)

    def process_primitive(
        self, primitive: Primitive, operands: Sequence[Any], params: Params, /
    ) -> Any:
        root = self.run.root
        for operand in operands:
            if type(operand) is ImplicitTracer and operand._trace.run.root is root:
                break
        else:
            return _jax.bind_under(self.parent, primitive, operands, params)
        values = [self.lower(operand) for operand in operands]
        arguments = [self.argument_of(operand) for operand in operands]
        call = Call.of(self.here(), primitive, values, params, arguments)
        results = [
            ImplicitTracer(self, result, call.argument_of(result, place))
            if is_value(result)
            else result
            for place, result in enumerate(call.results())
        ]
        return results if primitive.multiple_results else results[0]

    def here(self) -> ImplicitTrace:
        """This trace, with the handlers that decide where a primitive is being applied.

        They are others than the run's own in a function that brings its tables: it carries them
        along, for JAX may apply what is in it elsewhere and later (`_jax.carrying`).
        """
        tables = carried_tables()
        if tables is None or tables == self.run.tables:
            return self
        return ImplicitTrace(self.parent, self.run.with_tables(tables), self.callers)

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


def carried_tables() -> Tables | None:
    """The tables that the innermost function which brought its own carries, if there is one."""
    item = _jax.carried()
    return item if type(item) is Tables else None


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
            return leaf.value
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
    if batch:
        return _densify_batched(value, batch, run, needed_by)
    if has_implicit_field(value):
        trace = ImplicitTrace(_jax.current_trace(), run)
        with _jax.under(trace):
            dense = materialize_once(lift_fields(value, trace, argument))
        dense = lower(dense, run)
    else:
        dense = materialize_once(value)
        if type(dense) is ImplicitTracer:
            dense = dense.value
    check_materialized(value, dense)
    return dense if is_value(dense) else _jax.strongly_typed(dense)


def _stand_in(value: ImplicitValue) -> jax.Array:
    """Any dense array of the type of `value`: for a draft that will not run, to be gone on with."""
    aval = aval_of(value)
    zeros = jax.numpy.zeros(aval.shape, aval.dtype)
    dense: jax.Array = _jax.varying_alike([zeros, *jax.tree.leaves(value)])[0]
    return dense


def materialize_once(value: ImplicitValue) -> Any:
    """What the class's own `materialize` gives for `value`.

    Raises:
        ContractError: it computes with the array itself, which would have to become dense for that.
    """
    running = _materializing.stack
    if any(_same_array(value, other) for other in running):
        raise _computes_with_itself(value)
    running.append(value)
    try:
        return value.materialize()  # type: ignore[attr-defined]  # of ImplicitArray, abstract here
    finally:
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


# --- one primitive -------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Call:
    """A primitive on its way through handlers, rules and, last, materialization.

    Attributes:
        trace: the trace it is applied in.
        primitive: what is applied.
        values: its operands, implicit or dense, none of them a tracer of the run.
        operands: what they are dispatched as.
        params: its params.
        resolution: the handlers that take it, most specific first.
        arguments: the argument that each operand is, or was computed from, where that is known.
        reasons: why handlers that were tried declined.
        result_arguments: the same of the results, where a rule knows it.
    """

    trace: ImplicitTrace
    primitive: Primitive
    values: Sequence[Any]
    operands: tuple[Operand, ...]
    params: Params
    resolution: Resolution
    arguments: Sequence[Argument | None]
    reasons: list[str] = field(default_factory=list)
    result_arguments: Sequence[Argument | None] | None = None

    @classmethod
    def of(
        cls,
        trace: ImplicitTrace,
        primitive: Primitive,
        values: Sequence[Any],
        params: Params,
        arguments: Sequence[Argument | None],
    ) -> Call:
        """The call, with its handlers looked up."""
        with _jax.under(trace.parent):
            operands = tuple([describe(value) for value in values])
            resolution = resolve(trace.run.tables, primitive.name, operands, values)
        return cls(trace, primitive, values, operands, params, resolution, arguments)

    def argument_of(self, result: Any, place: int) -> Argument | None:
        """The argument that a result is, or was computed from, where there is one such."""
        if self.result_arguments is not None:
            return self.result_arguments[place]
        for value, argument in zip(self.values, self.arguments, strict=True):
            if value is result:
                return argument
        known = [argument for argument in self.arguments if argument is not None]
        return known[0].computed_by(self.primitive.name) if len(known) == 1 else None

    def results(self, position: int = 0) -> list[Any]:
        """The results, from the first handler at or after `position` that does not decline."""
        chain = self.resolution.chain
        rules = self.trace.run.rules
        rule: PrimitiveRule | None = rules.primitives.get(self.primitive.name, rules.other)
        for index in range(position, len(chain)):
            candidate = chain[index]
            ambiguous = self.resolution.ambiguous_after(index)
            if ambiguous is not None:
                raise ambiguous
            if rule is not None and candidate.entry.target.name == ANY_PRIMITIVE:
                results, rule = self._by(rule), None
                if results is not None:
                    return results
            results = self._try(index, candidate)
            if results is not None:
                if kept_record() is not None:
                    self._record(candidate)
                return results
        if rule is not None:
            results = self._by(rule)
            if results is not None:
                return results
        return self.materialize_operands()

    def _by(self, rule: PrimitiveRule) -> list[Any] | None:
        """What the rule gives; what happens meanwhile is noted as inside of this call."""
        events = self.trace.run.noted()
        before = 0 if events is None else len(events)
        results = rule(self)
        if events is not None and len(events) > before:
            outer = _jax.name_scopes(self.trace.place())
            name = _jax.inner_function(self.primitive, self.params)
            events[before:] = [put_inside(event, outer, name) for event in events[before:]]
        return results

    def _try(self, index: int, candidate: Candidate) -> list[Any] | None:
        """What the handler gives; None where it declines."""
        handler = candidate.entry.handler
        params = handler.accepted(self.params)
        if isinstance(params, str):
            self.reasons.append(_reason(handler, f" declined: {params}"))
            return None
        values = self.values[::-1] if candidate.swapped else self.values
        result = self._invoke(index, candidate, values, params)
        if result is DECLINE or result is NotImplemented:
            if handler.declines == "never":
                raise ContractError(
                    f"handler {handler.name} for `{self.primitive.name}` ({handler.place})",
                    f"declined, but its return annotation does not say that it may: "
                    f"{handler.result.text}.",
                    advice="Annotate the result as `... | typedqax.Declined`.",
                )
            self.reasons.append(_reason(handler, " declined"))
            return None
        with _jax.under(self.trace.parent):
            return check_results(
                self.primitive,
                candidate,
                self.operands,
                self.params,
                result,
                [_aval(value) for value in self.values],
            )

    def _invoke(
        self, index: int, candidate: Candidate, values: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Run the handler as ordinary JAX code, its operands' own implicit fields as tracers."""
        self._refuse_recursion(candidate)
        target, function = candidate.entry.target, candidate.entry.handler.function
        first = () if target.first is None else (target.first,)
        if target.name == ANY_PRIMITIVE and callable(target.first):
            first = (target.first(self.primitive),)  # what stands for this primitive
        nested = any(is_value(value) and has_implicit_field(value) for value in values)
        trace = self.trace
        if nested:
            arguments = self.arguments[::-1] if candidate.swapped else self.arguments
            values = [
                lift_fields(v, trace, argument) if is_value(v) else v
                for v, argument in zip(values, arguments, strict=True)
            ]
        _frames.stack.append(HandlerFrame(self, index, tuple(values), candidate.swapped))
        try:
            with _jax.under(trace if nested else trace.parent):
                result = function(*first, *values, **params)
        except RecursionError as error:
            # A recursion of the user's own, inside one handler, is nothing to explain away.
            if any(frame.entry is candidate.entry for frame in _frames.stack[:-1]):
                raise self._endless(candidate) from error
            raise
        finally:
            _frames.stack.pop()
        return lower(result, trace.run) if nested else _lower_result(result, trace.run)

    def _refuse_recursion(self, candidate: Candidate) -> None:
        """Refuse a handler that applies its own primitive to its own operands: it runs for ever."""
        frame = running_handler()
        if frame is None or frame.entry is not candidate.entry or frame.call.params != self.params:
            return
        own, tree = jax.tree.flatten(list(frame.call.values))
        again, other_tree = jax.tree.flatten(list(self.values))
        if tree == other_tree and all(a is b for a, b in zip(own, again, strict=True)):
            raise self._endless(candidate)

    def _endless(self, candidate: Candidate) -> ContractError:
        handler, name = candidate.entry.handler, self.primitive.name
        return ContractError(
            f"handler {handler.name} for `{name}` ({handler.place})",
            f"applies `{name}` to its own operands, which runs it again, and so for ever.",
            advice="Work on the operands' fields; for the next handler, or the dense arrays, call "
            "typedqax.default_handler with the very same operands (inside a function that jit, "
            "checkpoint or grad transforms, close over them).",
        )

    def materialize_operands(self) -> list[Any]:
        """The results for dense operands; what is made dense is said.

        An operand whose `materialize` gives an implicit array is that array here, with handlers
        of its own: a LoRA matrix around a masked one keeps the mask.
        """
        run, name = self.trace.run, self.primitive.name
        pairs = list(zip(self.values, self.arguments, strict=True))
        told = [pair for pair in pairs if is_value(pair[0]) and run.asks_of(pair[0], name)]
        if told:
            source, (reasons, remedy) = self.trace.place(), self._reasons()
            for value, argument in told:
                run.happened(
                    Materialization.of(
                        value,
                        name,
                        reasons,
                        source=source,
                        operands=self.operands,
                        argument=argument,
                        remedy=remedy,
                    )
                )
        with _jax.under(self.trace.parent):
            dense = [
                meaning(value, run, argument, name) if is_value(value) else value
                for value, argument in pairs
            ]
        if any(is_value(value) for value in dense):
            meant = Call.of(self.trace, self.primitive, dense, self.params, self.arguments)
            return meant.results()
        with _jax.under(self.trace.parent):
            # JAX's functions saw to it for the operands that they knew; an implicit one did not
            # say over which axes of a shard_map it varies.
            dense = list(_jax.varying_alike(dense))
        results = _jax.bind_under(self.trace.parent, self.primitive, dense, self.params)
        return list(results) if self.primitive.multiple_results else [results]

    def _record(self, candidate: Candidate) -> None:
        handler = candidate.entry.handler
        self.trace.run.happened(
            Application(
                self.primitive.name,
                self.operands,
                handler.name,
                handler.place,
                tuple(self.reasons),
                self.trace.place(),
            )
        )

    def _reasons(self) -> tuple[tuple[str, ...], str]:
        """Why no handler takes this call, and what to do unless it is to write one."""
        near = misses(self.trace.run.tables, self.primitive.name, self.operands)
        table = near[0].table if near else None
        reasons = [_reason(miss.entry.handler, ": ", miss.reason) for miss in near]
        return (
            (*self.reasons, *reasons[:3]),
            f"give the table {table.name!r} as handlers=, or tq.install it" if table else "",
        )


def _reason(handler: Handler, *parts: str) -> Reason:
    """What is said of a handler, with its name and place."""
    return Reason(handler.name, " (", handler.place, ")", *parts)


def _aval(value: Any) -> Any:
    return aval_of(value) if is_value(value) else jax.typeof(value)


def _lower_result(result: Any, run: Run) -> Any:
    """As `lower`, where only the results themselves can be tracers of the run."""
    if type(result) is ImplicitTracer and result._trace.run.root is run.root:
        return result.value
    if isinstance(result, (list, tuple)):
        items = [_lower_result(item, run) for item in result]
        return items if isinstance(result, list) else tuple(items)
    return result


# --- handlers that are running -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class HandlerFrame:
    """A handler that is running in this thread, and the call it handles."""

    call: Call
    index: int
    operands: tuple[Any, ...]
    swapped: bool

    @property
    def entry(self) -> Entry:
        """The rule that runs, under its primitive."""
        return self.call.resolution.chain[self.index].entry

    def handles(self, primitive: Primitive, operands: Sequence[Any]) -> bool:
        """Whether this is the same primitive on the handler's own operands."""
        return (
            primitive is self.call.primitive
            and len(operands) == len(self.operands)
            and all(a is b for a, b in zip(operands, self.operands, strict=True))
        )

    def proceed(self, params: Params) -> list[Any]:
        """What the next most specific handler gives, and last materialization."""
        call = self.call
        following = Call(
            call.trace,
            call.primitive,
            call.values,
            call.operands,
            params,
            call.resolution,
            call.arguments,
            list(call.reasons),
        )
        return following.results(self.index + 1)


class _Frames(threading.local):
    def __init__(self) -> None:
        self.stack: list[HandlerFrame] = []


_frames = _Frames()


def running_handler() -> HandlerFrame | None:
    """The handler that is running now in this thread."""
    return _frames.stack[-1] if _frames.stack else None


def bodies_running() -> tuple[int, int]:
    """How many handlers, and `materialize` methods, are running now in this thread."""
    return len(_frames.stack), len(_materializing.stack)


def argument_in_handlers(value: Any) -> Argument | None:
    """The argument that an operand of a running handler is; None of anything else."""
    for frame in reversed(_frames.stack):
        for own, argument in zip(frame.call.values, frame.call.arguments, strict=True):
            if own is value:
                return argument
    return None


def enclosing_trace() -> ImplicitTrace | None:
    """The innermost implicit trace that the current trace is, or is inside of."""
    trace: Any = _jax.current_trace()
    while trace is not None and type(trace) is not ImplicitTrace:
        trace = getattr(trace, "parent_trace", None)
    return trace
