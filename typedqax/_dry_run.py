"""A dry run: a function run for what it does, whose numbers are computed only if Python asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._jax import Params, Primitive, Trace, Tracer

SMALL = 1024
"""The most elements that an argument may have to keep its numbers in a dry run."""


@dataclass(slots=True, eq=False)
class _Equation:
    """A primitive whose operands are all known, to be computed if somebody asks for its results.

    Attributes:
        primitive: what is applied.
        operands: arrays, or tracers of results of other such equations.
        params: its params.
        results: once they were asked for.
    """

    primitive: Primitive
    operands: tuple[Any, ...]
    params: Params
    results: list[Any] | None = None


class DryTracer(_jax.AnyTracer):
    """An array of a dry run: its numbers are not computed unless Python asks for them."""

    __slots__ = ("equation", "index", "inner", "unknown")
    _trace: DryTrace

    def __init__(
        self,
        trace: DryTrace,
        inner: Any,
        *,
        equation: _Equation | None = None,
        index: int = 0,
        unknown: str = "",
    ) -> None:
        super().__init__(trace, jax.typeof(inner))
        self.inner = inner
        self.equation = equation
        self.index = index
        self.unknown = unknown

    def to_concrete_value(self) -> Any:
        """The numbers, computed now if that is not done yet; None where they are not known."""
        if self.equation is None:
            self._trace.asked = self
            return None
        _compute(self.equation)
        results = self.equation.results
        return None if results is None else results[self.index]

    # What JAX itself gives up on for any tracer, without asking for a concrete value.

    def _numbers(self) -> Any:
        """The numbers as numpy has them.

        Raises:
            TracerArrayConversionError: they are not known.
        """
        value = self.to_concrete_value()
        if value is None:
            raise jax.errors.TracerArrayConversionError(self)
        return np.asarray(value)

    def __array__(self, dtype: Any = None, context: None = None, copy: bool | None = None) -> Any:
        return np.array(self._numbers(), dtype=dtype, copy=copy)

    def __float__(self) -> float:
        value = self.to_concrete_value()
        if value is not None:
            return float(value)
        return float(_jax.Tracer.__float__(self))  # raises

    def __complex__(self) -> complex:
        value = self.to_concrete_value()
        if value is not None:
            return complex(value)
        return complex(_jax.Tracer.__complex__(self))  # the same

    def __format__(self, spec: str) -> str:
        value = self.to_concrete_value() if spec else None
        return super().__format__(spec) if value is None else format(value, spec)

    def tolist(self) -> Any:
        """The numbers in lists."""
        return self._numbers().tolist()

    def item(self, *args: Any) -> Any:
        """One of the numbers."""
        return self._numbers().item(*args)

    def block_until_ready(self) -> DryTracer:
        """There is nothing to wait for."""
        return self


class DryTrace(_jax.Trace):
    """Stages every primitive, and remembers how to compute it where all of its operands are known.

    Attributes:
        parent: the trace in which primitives are staged.
        asked: the array that was last asked for numbers that are not known.
    """

    __slots__ = ("asked", "parent")

    def __init__(self, parent: Trace) -> None:
        _jax.Trace.__init__(self)
        self.requires_low = False  # as the trace of a transform: primitives are seen as they are
        self.parent = parent
        self.asked: DryTracer | None = None

    @property
    def parent_trace(self) -> Trace:
        """The trace outside this one."""
        return self.parent

    def argument(self, inner: Any, name: str) -> DryTracer:
        """An argument without numbers."""
        return DryTracer(self, inner, unknown=name)

    def process_primitive(
        self, primitive: Primitive, operands: Sequence[Any], params: Params, /
    ) -> Any:
        self.asked = None  # whoever asked went on without
        inner = [self._lower(operand) for operand in operands]
        found = _jax.bind_under(self.parent, primitive, inner, params)
        results = list(found) if primitive.multiple_results else [found]
        unknown = next((why for why in map(self._unknown, operands) if why), "")
        if not all(_jax.is_plain_array(jax.typeof(each)) for each in (*inner, *results)):
            unknown = unknown or f"what {primitive.name} gives"  # the contents of a ref, say
        equation = None if unknown else _Equation(primitive, tuple(operands), params)
        lifted = [
            DryTracer(self, each, equation=equation, index=index, unknown=unknown)
            for index, each in enumerate(results)
        ]
        return lifted if primitive.multiple_results else lifted[0]

    # A function with a derivative rule of its own is the function: no derivative reaches this
    # trace, as those that do not stand inside of it are taken outside of the run.

    def process_call(
        self, primitive: Primitive, function: _jax.WrappedFun, operands: Any, params: Params, /
    ) -> list[Any]:
        with _jax.under(self):
            return list(function.call_wrapped(*operands))

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
        return self.process_call(primitive, function, operands, {})

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
        return self.process_call(primitive, function, operands, {})

    def process_shard_map(
        self, primitive: Primitive, function: Any, operands: Any, /, **params: Any
    ) -> Any:
        inner = [self._lower(operand) for operand in operands]
        staged = {"subfuns": (function,), **params}
        results = _jax.bind_under(self.parent, primitive, inner, staged)
        lifted = [DryTracer(self, each, unknown="what shard_map gives") for each in results]
        return results.update(lifted)

    def stage_value(self, val: Any) -> Any:
        if isinstance(val, Tracer):
            own = type(val) is DryTracer and val._trace is self
            return val if own else self.parent.stage_value(val)
        with _jax.without_trace() as trace:
            return trace.stage_value(val)

    def cur_qdd(self, value: Any) -> Any:
        return _jax.cur_qdd(self.parent, self._lower(value))

    def _lower(self, value: Any) -> Any:
        return value.inner if type(value) is DryTracer and value._trace is self else value

    def _unknown(self, value: Any) -> str:
        """Why the numbers of an operand are not known; empty where they are."""
        if type(value) is DryTracer and value._trace is self:
            return value.unknown
        if isinstance(value, Tracer):
            return "a value of the transformation around it"
        return ""


def _compute(equation: _Equation) -> None:
    """Compute an equation and what it needs; in a loop, since programs are long."""
    waiting = [equation]
    while waiting:
        last = waiting[-1]
        if last.results is None:
            needed = [
                operand.equation
                for operand in last.operands
                if type(operand) is DryTracer
                and operand.equation is not None
                and operand.equation.results is None
            ]
            if needed:
                waiting += needed
                continue
            operands = [_computed(operand) for operand in last.operands]
            with _jax.without_trace():
                found = _jax.bind(last.primitive, operands, last.params)
            last.results = list(found) if last.primitive.multiple_results else [found]
            last.operands = ()
        waiting.pop()


def _computed(operand: Any) -> Any:
    if type(operand) is not DryTracer:
        return operand
    equation = operand.equation
    if equation is None or equation.results is None:
        raise AssertionError("an equation is computed after those that it needs")
    return equation.results[operand.index]


def dry_run(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run `function`, and compute nothing.

    Arguments of more than `SMALL` elements, `jax.ShapeDtypeStruct`s and tracers have no numbers in
    it. What depends on none of these is computed where Python asks for it, and nowhere else.

    Raises:
        Exception: whatever `function` raises.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path((args, kwargs))
    leaves = [leaf for _, leaf in paths]
    abstract = [place for place, leaf in enumerate(leaves) if _is_abstract(leaf)]
    traces: list[DryTrace] = []

    def run(inner: list[Any]) -> None:
        trace = DryTrace(_jax.current_trace())
        traces.append(trace)
        filled = list(leaves)
        for place, tracer in zip(abstract, inner, strict=True):
            filled[place] = trace.argument(tracer, str(Argument(function, paths[place][0])))
        inner_args, inner_kwargs = jax.tree.unflatten(tree, filled)
        with _jax.under(trace):
            function(*inner_args, **inner_kwargs)

    try:
        jax.eval_shape(run, [leaves[place] for place in abstract])
    except _NEEDS_NUMBERS as error:
        asked = traces[-1].asked if traces else None
        if asked is not None or isinstance(error, jax.errors.NonConcreteBooleanIndexError):
            error.add_note(_without_numbers(asked))
        raise


def _is_abstract(leaf: Any) -> bool:
    if isinstance(leaf, (jax.ShapeDtypeStruct, Tracer)):
        return True
    return isinstance(leaf, (jax.Array, np.ndarray)) and leaf.size > SMALL


_NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
)


def _without_numbers(asked: DryTracer | None) -> str:
    told = ""
    if asked is not None:
        aval = _jax.short_aval(asked.shape, asked.dtype)
        told = f" Here the numbers of {aval} are asked for, which depend on {asked.unknown}."
    return (
        f"typedqax.explain computes nothing: arguments of more than {SMALL} elements and "
        f"ShapeDtypeStructs have no numbers in it.{told} Pass a smaller array there, or explain a "
        f"part of the function that asks for none."
    )
