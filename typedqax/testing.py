"""Help for tests of implicit arrays: `check_handlers`, and fixtures for pytest.

Fixtures come with `pytest_plugins = ["typedqax.testing"]` in the `conftest.py` at a project's root:
`forbid_materialization` makes it an error in the test that anything becomes dense for want of a
handler; `explained()` tells what the test has done so far with implicit arrays.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from typedqax import _jax
from typedqax._array import ImplicitArray
from typedqax._aval import describe, look
from typedqax._dispatch import ANY_PRIMITIVE, Tables, resolve
from typedqax._errors import UsageError
from typedqax._explain import Explanation
from typedqax._handler import Handler
from typedqax._materialization import materialization
from typedqax._recording import Application, Record, recording
from typedqax._samples import Held, Sample, held_like, sampled_primitives, samples
from typedqax._table import Entry, HandlerTable, live_tables
from typedqax._transform import materialize, use_implicit_args
from typedqax._value import is_value

__all__ = ["HandlerReport", "check_handlers"]

A = TypeVar("A", bound=ImplicitArray)


@dataclasses.dataclass(frozen=True, slots=True)
class HandlerReport:
    """What `check_handlers` has tried.

    Attributes:
        calls: how many calls were compared with the dense path.
        comparisons: how many results of them, under one transformation or another.
        reached: the handlers that ran, each with its file, line and primitives.
        unreached: the handlers that take such arrays, and that no call reached.
    """

    calls: int
    comparisons: int
    reached: tuple[str, ...]
    unreached: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.calls} calls agree with the dense path. Handlers that ran:"]
        lines += [f"  {each}" for each in self.reached] or ["  none"]
        if self.unreached:
            lines += ["Handlers that no call reached:", *(f"  {each}" for each in self.unreached)]
        return "\n".join(lines)


def check_handlers(
    cls: type[A],
    examples: Iterable[A],
    *,
    handlers: HandlerTable | None = None,
    calls: Sequence[Callable[[A], object]] = (),
    skip: Sequence[str] = (),
    without: Sequence[str] = (),
    tolerance: float | None = None,
    reach_all: bool = False,
) -> HandlerReport:
    """Compare every handler that takes arrays of `cls` with the dense path.

    Each example goes through sample calls of each primitive that has such a handler: with dense
    arrays, scalars and other examples, in several shapes and params. What handlers give for it is
    compared with what the primitive gives for `materialize()`: numbers, shape and dtype, as it is
    and under jit, jvp, vjp, vmap and scan. Handlers that take other implicit arrays too are given
    some, and those that no call reaches stacks of the examples.

    Args:
        cls: a subclass of `ImplicitArray`.
        examples: a few instances, small ones, with numbers of either sign; those of which two
            have one shape try more.
        handlers: a table whose handlers go ahead of the installed ones.
        calls: further calls, as functions of one example, for handlers that no sample reaches.
        skip: primitives whose handlers mean to give something else than the dense path.
        without: transformations that are not to be compared, of `"jvp"`, `"vjp"`, `"vmap"` and
            `"scan"`: `["jvp"]` for handlers that have a `jax.custom_vjp` in them.
        tolerance: how far numbers may differ, relative to the largest; by default what their
            dtype's rounding excuses.
        reach_all: a handler that no call reaches is a failure.

    Raises:
        AssertionError: a handler gives something else; the smallest call that shows it is told.
            Or no handler ran at all, so that nothing was compared.

    Example:
        >>> import jax.numpy as jnp, typedqax as tq
        >>> from typedqax.arrays import EYE, Eye
        >>> from typedqax.testing import check_handlers
        >>> check_handlers(Eye, [Eye(3)], handlers=EYE).calls > 0
        True
    """
    if is_value(examples):  # its rows would be taken for them
        raise UsageError(
            f"check_handlers({cls.__name__}, ...): examples is a list of arrays, not an array: "
            f"check_handlers({cls.__name__}, [example])."
        )
    instances = list(examples)
    for instance in instances:
        if not isinstance(instance, cls):
            raise UsageError(
                f"check_handlers({cls.__name__}, ...): an example is a {type(instance).__name__}."
            )
    if not instances:
        raise UsageError(f"check_handlers({cls.__name__}, ...): there are no examples.")
    unknown = [name for name in without if name not in ("jvp", "vjp", "vmap", "scan")]
    if unknown or isinstance(without, str):
        raise UsageError(
            f"check_handlers({cls.__name__}, ..., without={without!r}): a list of some of 'jvp', "
            f"'vjp', 'vmap' and 'scan'."
        )
    for instance in instances:
        jax.eval_shape(materialize, instance)  # without a dense path there is nothing to hold to
    every = _entries(cls, Tables.of(handlers))
    entries = [entry for entry in every if entry.target.name not in skip]
    tried = _Tried(entries, handlers, tolerance, without)
    with materialization("allow", cls):
        for sample in _samples(entries, instances, calls):
            if sample.primitive not in skip:
                tried.look(sample)
        tried.most = _OF_EACH_STACK
        for sample in _further_samples(tried.unreached(entries), instances):
            tried.look(sample)
        tried.compare()
    if tried.failures:
        raise AssertionError(_text(tried.failures))
    report = _report(entries, tried)
    if not tried.comparisons:
        raise AssertionError(_nothing_ran(cls, report, _elsewhere(cls, every), skip))
    if reach_all and report.unreached:
        raise AssertionError(str(report))
    return report


def _entries(cls: type[ImplicitArray], tables: Tables) -> list[Entry]:
    """The handlers that may be given an array of `cls`."""
    names = {name for table in live_tables() for name in table.primitives}
    names |= {ranking for table in (tables.extra,) if table for ranking in table.primitives}
    found: dict[Entry, None] = {}
    for name in sorted(names | set(sampled_primitives()) | {ANY_PRIMITIVE}):
        for ranking in tables.rankings(name):
            for entry in ranking.entries:
                if not entry.signature.classes.isdisjoint(cls.__mro__):
                    found[entry] = None
    return list(found)


def _elsewhere(
    cls: type[ImplicitArray], entries: Sequence[Entry]
) -> dict[HandlerTable, dict[Handler, list[str]]]:
    """The handlers written for `cls` that are not among those tried: by table, with primitives."""
    own = set(cls.__mro__).difference(ImplicitArray.__mro__)
    seen = {entry.rule for entry in entries}
    found: dict[HandlerTable, dict[Handler, list[str]]] = {}
    for table in live_tables():
        fresh = [
            entry
            for primitive in table.primitives
            for entry in table.entries(primitive)
            if entry.rule not in seen and not own.isdisjoint(entry.signature.classes)
        ]
        for entry in fresh:
            by_handler = found.setdefault(table, {})
            by_handler.setdefault(entry.handler, []).append(entry.target.name)
        seen |= {entry.rule for entry in fresh}  # a table made of others has nothing new to tell
    return found


def _samples(
    entries: Sequence[Entry],
    instances: Sequence[Any],
    calls: Sequence[Callable[..., Any]],
) -> Iterator[Sample]:
    primitives = {entry.target.name for entry in entries}
    if ANY_PRIMITIVE in primitives:
        primitives |= set(sampled_primitives())
    strangers = {
        entry.target.name
        for entry in entries
        if not entry.signature.classes.isdisjoint(Held.__mro__)
    }
    for number, instance in enumerate(instances):
        others = [*instances[:number], *instances[number + 1 :]]
        for primitive in sorted(primitives):
            held = held_like(instance) if primitive in strangers else []
            yield from samples(primitive, instance, [*others, *held])
        for call in calls:
            name = getattr(call, "__name__", "call")
            yield Sample(name, call, (instance,), asked=True)


def _further_samples(entries: Sequence[Entry], instances: Sequence[Any]) -> Iterator[Sample]:
    """What may reach handlers that nothing has reached: stacks of the examples."""
    for primitive in sorted({entry.target.name for entry in entries}):
        for instance in instances:
            stack = jax.tree.map(_two, instance)
            if len(look(stack).batch) > len(look(instance).batch):
                yield from samples(primitive, stack)


# --- comparison ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    """A call in which a handler gives something else than the dense path."""

    sample: Sample
    ran: tuple[Application, ...]
    transformation: str
    problem: str
    raised_by: Handler | None = None

    @property
    def weight(self) -> tuple[int, int]:
        """The smaller, the better it shows what is wrong."""
        return list(_WHERE).index(self.transformation), self.sample.size


class _Tried:
    """The calls that were tried, which handlers they reached, and which of them fail."""

    def __init__(
        self,
        entries: Sequence[Entry],
        handlers: HandlerTable | None,
        tolerance: float | None,
        without: Sequence[str],
    ) -> None:
        self.handlers, self.tolerance = handlers, tolerance
        self.left_out = [way for way, name in _NAMES.items() if name.split("_")[0] in without]
        # A handler of many primitives does the same for each of them: one call of each will do.
        self.wide = {str(e.handler.place) for e in entries if len(e.rule.targets) > _MANY}
        self.samples: list[tuple[Sample, tuple[Application, ...]]] = []
        self.comparisons = 0
        self.most = _OF_EACH
        self.ran: Counter[tuple[str, str, str]] = Counter()
        self.often: Counter[tuple[str, str, str, tuple[bool, ...]]] = Counter()
        self.failures: list[_Failure] = []

    def look(self, sample: Sample) -> None:
        """Note which handlers a call reaches, by running it abstractly."""
        implicit, dense = self._paths(sample)
        if self._is_enough(sample):
            return
        refusal = _refusal(dense, sample.operands)
        if refusal and sample.asked:
            self.failures.append(_Failure(sample, (), "value", f"on dense arrays {refusal}"))
        if refusal:
            return
        failed: Exception | None = None
        with recording() as record:
            try:
                jax.eval_shape(implicit, *sample.operands)
            except Exception as error:  # noqa: BLE001  # whatever a handler raises is its failure
                failed = error
        ran = tuple(each for each in record.events if isinstance(each, Application))
        if failed is not None:
            raised_by = _raised_by(failed, self._chain(sample))
            self.failures.append(_Failure(sample, ran, "value", _raised(failed), raised_by))
        elif ran:
            keys = {(each.primitive, each.handler, str(each.place)) for each in ran}
            kinds = {(*key, self._kind(key[2], sample)) for key in keys}
            if any(self.often[kind] < self._limit(kind[2]) for kind in kinds):
                self.samples.append((sample, ran))
            self.ran.update(keys)
            self.often.update(kinds)

    def unreached(self, entries: Sequence[Entry]) -> list[Entry]:
        """Those of the handlers that have not run."""
        ran = {place for _, _, place in self.ran}
        return [entry for entry in entries if str(entry.handler.place) not in ran]

    def _is_enough(self, sample: Sample) -> bool:
        """Whether the handler that comes first for a call has been tried often enough."""
        if not sample.direct:
            return False
        chain = self._chain(sample)
        if not chain:
            return True
        first = chain[0]
        place = str(first.place)
        kind = (sample.primitive, first.name, place, self._kind(place, sample))
        return self.often[kind] >= self._limit(place)

    def _chain(self, sample: Sample) -> list[Handler]:
        """The handlers that take a call, in order; none where it is more than a primitive."""
        if not sample.direct:
            return []
        operands = tuple(describe(each) for each in sample.operands)
        tables = Tables.of(self.handlers)
        chain = resolve(tables, sample.primitive, operands, sample.operands).chain
        return [candidate.entry.handler for candidate in chain]

    def _kind(self, place: str, sample: Sample) -> tuple[bool, ...]:
        """Which operands are implicit: a handler is tried on each kind of call by itself."""
        return () if place in self.wide else tuple(is_value(each) for each in sample.operands)

    def _limit(self, place: str) -> int:
        """How many calls of one primitive and kind the handler written there is tried on."""
        return 1 if place in self.wide else self.most

    def compare(self) -> None:
        """Run all calls that reached a handler, in every way, and note what differs."""
        few = self._few_of_each_handler()
        numbers = list(range(len(self.samples)))
        # XLA takes more than twice as long for what is twice as large.
        for start in range(0, len(numbers), _TOGETHER):
            self._compare(numbers[start : start + _TOGETHER], few)
        failed = {id(failure.sample) for failure in self.failures}
        for number in sorted(few):
            sample, _ = self.samples[number]
            if id(sample) in failed:
                continue
            implicit, dense = self._paths(sample)
            try:
                want = dense(*sample.operands)
                problem = self._difference(implicit(*sample.operands), want, sample.operands)
            except Exception as error:  # noqa: BLE001  # the handler's failure
                problem = _raised(error)
            self.comparisons += 1
            if problem:
                self._fail(number, "value", f"outside of jit {problem}")

    def _compare(self, numbers: Sequence[int], few: frozenset[int]) -> None:
        """Compare some of the calls, compiled together."""
        problems: dict[tuple[int, str], str] = {}

        def everything(operands: list[tuple[Any, ...]]) -> dict[tuple[int, str], tuple[Any, Any]]:
            found: dict[tuple[int, str], tuple[Any, Any]] = {}
            for number, given in zip(numbers, operands, strict=True):
                implicit, dense = self._paths(self.samples[number][0])
                for way in self._ways(number, few):
                    try:
                        want = way(dense, *given)
                    except Exception:  # noqa: BLE001  # not even JAX alone has a derivative
                        continue
                    try:
                        got = way(implicit, *given)
                    except Exception as error:  # noqa: BLE001  # the handler's failure
                        problems[number, _NAMES[way]] = _raised(error)
                        continue
                    found |= {(number, name): (got[name], want[name]) for name in want}
                    if way is _vjp:
                        break
            return found

        operands = [self.samples[number][0].operands for number in numbers]
        try:
            lowered = jax.jit(everything).lower(operands)
            pairs = lowered.compile(compiler_options=_QUICK)(operands)
        except Exception:  # noqa: BLE001  # there is one that JAX cannot compile
            if len(numbers) == 1:
                self._compare_alone(numbers[0], few)
                return
            for half in (numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]):
                self._compare(half, few)
            return
        self._note(pairs)
        for (number, name), problem in problems.items():
            self._fail(number, name, problem)

    def _compare_alone(self, number: int, few: frozenset[int]) -> None:
        """Compare one call, each transformation compiled by itself."""
        operands = self.samples[number][0].operands
        implicit, dense = self._paths(self.samples[number][0])
        for way in self._ways(number, few):
            try:
                want = _compiled(way, dense, operands)
            except Exception:  # noqa: BLE001  # not even JAX alone compiles it
                continue
            try:
                got = _compiled(way, implicit, operands)
            except Exception as error:  # noqa: BLE001  # the handler's failure
                self._fail(number, _NAMES[way], _raised(error))
                continue
            self._note({(number, name): (got[name], want[name]) for name in want})
            if way is _vjp:
                break

    def _note(self, pairs: dict[tuple[int, str], tuple[Any, Any]]) -> None:
        """Note which results, by call and transformation, are not those of the dense path."""
        for (number, name), pair in pairs.items():
            among = [self.samples[number][0].operands, pairs.get((number, "value"))]
            # Of infinite slopes only the order of sums is left.
            got, want = _where_finite(*pair) if name in ("jvp", "vjp") else pair
            self.comparisons += 1
            problem = self._difference(got, want, among)
            if problem:
                self._fail(number, name, problem)

    def _ways(self, number: int, few: frozenset[int]) -> Sequence[Callable[..., dict[str, Any]]]:
        """The transformations that a call is compared under."""
        ways = _ALL if number in few else _ALWAYS
        ran = self.samples[number][1]
        if number not in few and all(str(each.place) in self.wide for each in ran):
            ways = (_value,)
        return [way for way in ways if way not in self.left_out]

    def _fail(self, number: int, transformation: str, problem: str) -> None:
        sample, ran = self.samples[number]
        self.failures.append(_Failure(sample, ran, transformation, problem))

    def _few_of_each_handler(self) -> frozenset[int]:
        """The first two calls that each handler takes, and the first of each primitive."""
        count: Counter[tuple[str, str]] = Counter()
        few = set()
        for number, (_, ran) in enumerate(self.samples):
            places = {(str(each.place), "") for each in ran}
            each_primitive = {
                (str(each.place), each.primitive)
                for each in ran
                if str(each.place) not in self.wide
            }
            if any(count[key] < 2 for key in places) or any(not count[k] for k in each_primitive):
                few.add(number)
            count.update(places | each_primitive)
        return frozenset(few)

    def _paths(self, sample: Sample) -> tuple[Callable[..., Any], Callable[..., Any]]:
        transformed = use_implicit_args(sample.function, handlers=self.handlers)

        def implicit(*operands: Any) -> Any:
            return materialize(transformed(*operands))

        def dense(*operands: Any) -> Any:
            return sample.function(*[materialize(operand) for operand in operands])

        return implicit, dense

    def _difference(self, got: Any, want: Any, among: Any) -> str:
        """What differs, beyond the rounding of the dtypes `among`; empty if nothing does."""
        allowed = self.tolerance
        if allowed is None:
            allowed = _rounding(jax.tree.leaves((among, want)))
        left, right = jax.tree.leaves(got), jax.tree.leaves(want)
        if len(left) != len(right):
            return f"gives {len(left)} arrays, and the dense path {len(right)}"
        for one, other in zip(left, right, strict=True):
            problem = _array_difference(one, other, allowed)
            if problem:
                return problem
        return ""


def _refusal(function: Callable[..., Any], operands: Sequence[Any]) -> str:
    """What JAX itself says against the call on dense arrays; empty if nothing."""
    try:
        jax.eval_shape(function, *operands)
    except Exception as error:  # noqa: BLE001  # for the dtype, the rank, the number of axes, ...
        return _raised(error)
    return ""


def _compiled(way: Any, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What the transformation `way` of `function` gives, compiled."""
    lowered = jax.jit(lambda *given: way(function, *given)).lower(*operands)
    return lowered.compile(compiler_options=_QUICK)(*operands)


def _raised_by(error: Exception, chain: Sequence[Handler]) -> Handler | None:
    """The handler that raised `error`: the one in its traceback, or else the first."""
    frames = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    inside = [h for h in chain if getattr(h.function, "__code__", None) in frames]
    return next(iter([*inside, *chain]), None)


def _raised(error: Exception) -> str:
    return f"raises {type(error).__name__}: {str(error)[:1500]}"


def _array_difference(got: Any, want: Any, tolerance: float) -> str:
    if (got.shape, got.dtype) != (want.shape, want.dtype):
        own = _jax.short_aval(got.shape, got.dtype)
        return f"gives {own}, and the dense path {_jax.short_aval(want.shape, want.dtype)}"
    if got.dtype == jax.dtypes.float0 or not got.size:
        return ""
    if not jnp.issubdtype(got.dtype, jnp.inexact):
        count = int((np.asarray(got) != np.asarray(want)).sum())
        return f"differs in {count} of {got.size} places" if count else ""
    wide = np.complex128 if jnp.issubdtype(got.dtype, jnp.complexfloating) else np.float64
    one, other = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    finite = np.isfinite(other)
    scale = max(1.0, float(np.abs(other[finite]).max(initial=0.0)))
    allowed = scale * tolerance
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(one - other))
    wrong = ~(distance <= allowed)
    if not wrong.any():
        return ""
    largest = float(np.nanmax(np.where(wrong, distance, 0.0), initial=0.0))
    told = f"by up to {largest:.3g}" if np.isfinite(largest) and largest else "by not a number"
    return (
        f"differs {told} in {int(wrong.sum())} of {wrong.size} places "
        f"({allowed:.2g} would be excused)"
    )


def _where_finite(derivatives: Any, wanted: Any) -> tuple[Any, Any]:
    """Both, zero where the wanted ones are infinite or not a number."""

    def finite(derivative: Any, want: Any) -> Any:
        if derivative.shape != want.shape or not jnp.issubdtype(want.dtype, jnp.inexact):
            return derivative
        return jnp.where(jnp.isfinite(want), derivative, jnp.zeros_like(derivative))

    return jax.tree.map(finite, derivatives, wanted), jax.tree.map(finite, wanted, wanted)


def _rounding(arrays: Iterable[Any]) -> float:
    """How far results may be apart that were computed in another order, by the coarsest dtype."""
    dtypes = {array.dtype for array in arrays if jnp.issubdtype(array.dtype, jnp.inexact)}
    coarsest = 0.0
    for dtype in dtypes:
        coarsest = max(coarsest, float(jnp.finfo(dtype).eps))
    return float(3.0 * coarsest**0.7)


_TOGETHER = 24
"""How many calls are compiled at once."""

_OF_EACH = 12
"""How many calls of one primitive, with the same operands implicit, a handler is tried on."""

_OF_EACH_STACK = 3
"""The same for calls with stacks, which take longer to compile."""

_MANY = 8
"""A rule for more primitives than this is for a group of them."""

_QUICK: dict[str, str | bool] = {
    # Every call runs once, on a few numbers: what counts is the time to compile it.
    "xla_backend_optimization_level": "0",
    "xla_llvm_disable_expensive_passes": True,
}


# --- transformations -----------------------------------------------------------------------------


def _vjp(function: Any, *operands: Any) -> dict[str, Any]:
    out, pull = jax.vjp(function, *operands)
    return {"value": out, "vjp": pull(jax.tree.map(_tangent, out))}


def _value(function: Any, *operands: Any) -> dict[str, Any]:
    return {"value": function(*operands)}


def _jvp(function: Any, *operands: Any) -> dict[str, Any]:
    return {"jvp": jax.jvp(function, operands, jax.tree.map(_tangent, operands))[1]}


def _vmap(function: Any, *operands: Any) -> dict[str, Any]:
    return {"vmap": jax.vmap(function)(*jax.tree.map(_two, operands))}


def _vmap_dense(function: Any, *operands: Any) -> dict[str, Any]:
    """As `_vmap`, over the dense operands alone, as a batch goes through a model."""
    axes = tuple([None if is_value(operand) else 0 for operand in operands])
    if all(axis is None for axis in axes):
        return {}
    mapped = [each if is_value(each) else _two(each) for each in operands]
    return {"vmap_dense": jax.vmap(function, axes)(*mapped)}


def _scan(function: Any, *operands: Any) -> dict[str, Any]:
    stacked = jax.tree.map(_two, operands)
    results = jax.lax.scan(lambda _, each: (None, function(*each)), None, stacked)[1]
    return {"scan": results}


# Compiling each for every call would take most of the time: two calls of each handler will do for
# most of them. What `_vjp` gives says all that `_value` does, so that is for where it fails.
_ALL: tuple[Callable[..., dict[str, Any]], ...] = (
    _jvp, _vmap, _vmap_dense, _scan, _vjp, _value,
)  # fmt: skip
_ALWAYS = (_vjp, _value)
_NAMES = {
    _jvp: "jvp", _vmap: "vmap", _vmap_dense: "vmap_dense", _scan: "scan", _vjp: "vjp",
    _value: "value",
}  # fmt: skip


def _tangent(leaf: Any) -> Any:
    if not jnp.issubdtype(leaf.dtype, jnp.inexact):
        return np.zeros(leaf.shape, jax.dtypes.float0)
    return jnp.cos(jnp.arange(leaf.size, dtype=jnp.float32)).reshape(leaf.shape).astype(leaf.dtype)


def _two(leaf: Any) -> Any:
    """Two different arrays of one kind, stacked."""
    half = jnp.asarray(0.5, leaf.dtype)
    other = leaf * half if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf
    return jnp.stack([leaf, other])


# --- texts ---------------------------------------------------------------------------------------


def _text(failures: Sequence[_Failure]) -> str:
    worst = min(failures, key=lambda failure: failure.weight)
    lines = [
        f"{_named(worst)} is not the dense path:",
        f"  call: {worst.sample}",
        f"  {_WHERE[worst.transformation]} {worst.problem}",
    ]
    others: dict[str, int] = {}
    for failure in failures:
        others[_named(failure)] = others.get(_named(failure), 0) + 1
    if len(failures) > 1:
        lines.append(f"It is the smallest of {len(failures)} failures:")
        lines += [f"  {count} x {name}" for name, count in list(others.items())[:10]]
        if len(others) > 10:
            lines.append(f"  ... and of {len(others) - 10} more handlers")
    return "\n".join(lines)


def _nothing_ran(
    cls: type[ImplicitArray],
    report: HandlerReport,
    elsewhere: dict[HandlerTable, dict[Handler, list[str]]],
    skip: Sequence[str],
) -> str:
    lines = [f"check_handlers({cls.__name__}, ...): no handler ran, so nothing was compared."]
    if report.unreached:
        lines += ["Handlers that no call reached:", *_few(report.unreached)]
        lines.append("Give functions of an example that reach them: calls=[...].")
    else:
        but = f", but for those skipped ({', '.join(skip)})" if skip else ""
        lines.append(f"No installed table, and none given, has a handler for {cls.__name__}{but}.")
    if elsewhere:
        lines.append(
            "Tables that have some, but are not installed and were not given as handlers=:"
        )
        told = [
            f"{table.name!r} ({table.origin.place}): {_at(handler)} for {', '.join(_first(names))}"
            for table, handlers in elsewhere.items()
            for handler, names in handlers.items()
        ]
        lines += _few(told)
        lines.append(
            f"Give the table: check_handlers({cls.__name__}, ..., handlers=<the table>); "
            "or install it."
        )
    elif not report.unreached and not skip:
        lines.append("Declare some: HandlerTable(name, ops.<primitive>.to(handler), ...).")
    return "\n".join(lines)


def _few(lines: Sequence[str]) -> list[str]:
    more = [f"  ... and {len(lines) - 8} more"] if len(lines) > 8 else []
    return [*(f"  {each}" for each in lines[:8]), *more]


def _first(names: Sequence[str]) -> list[str]:
    return [*names[:4], *(["..."] if len(names) > 4 else [])]


_WHERE = {
    "value": "the result",
    "jvp": "its tangent (jvp)",
    "vjp": "the cotangents of the fields (vjp)",
    "vmap": "the result under vmap",
    "vmap_dense": "the result under vmap over the dense operands alone",
    "scan": "the result of scan over slices",
}


def _named(failure: _Failure) -> str:
    if failure.raised_by is not None:
        return f"handler {_at(failure.raised_by)} for `{failure.sample.primitive}`"
    own = [each for each in failure.ran if each.primitive == failure.sample.primitive]
    for each in own or failure.ran:
        return f"handler {each.handler} ({each.place}) for `{each.primitive}`"
    return f"`{failure.sample.primitive}`"


def _report(entries: Sequence[Entry], tried: _Tried) -> HandlerReport:
    reached: dict[Handler, list[str]] = {}
    idle: dict[Handler, None] = {}
    for entry in entries:
        handler = entry.handler
        found = [
            primitive
            for primitive, name, place in tried.ran
            if (name, place) == (handler.name, str(handler.place))
            and entry.target.name in (primitive, ANY_PRIMITIVE)
        ]
        if found:
            reached.setdefault(handler, []).extend(found)
        else:
            idle[handler] = None
    return HandlerReport(
        len(tried.samples),
        tried.comparisons,
        tuple(f"{_at(each)}: {', '.join(sorted(set(names)))}" for each, names in reached.items()),
        tuple(_at(each) for each in idle if each not in reached),
    )


def _at(handler: Handler) -> str:
    return f"{handler.name} ({handler.place})"


# --- fixtures ------------------------------------------------------------------------------------

if importlib.util.find_spec("pytest") is not None:  # it is no dependency: without it, no fixtures
    import pytest

    @pytest.fixture
    def forbid_materialization() -> Iterator[None]:
        """In the test, an implicit array that becomes dense for want of a handler is an error."""
        with materialization("error"):
            yield

    @pytest.fixture
    def explained() -> Iterator[Callable[[], Explanation]]:
        """What the test has done so far with implicit arrays, whenever it asks."""
        with recording() as record:
            yield lambda: Explanation.of(Record(list(record.events)))
