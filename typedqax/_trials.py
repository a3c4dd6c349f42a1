"""Trials: calls that reach handlers, each compared with the dense path, and those that fail."""

from __future__ import annotations

import dataclasses
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax

from typedqax import _jax
from typedqax._aval import describe
from typedqax._difference import array_difference, rounding, where_finite
from typedqax._dispatch import Tables, resolve
from typedqax._errors import shortened
from typedqax._handler import Handler
from typedqax._recording import Application, recording
from typedqax._samples import Sample
from typedqax._table import Entry, HandlerTable
from typedqax._transform import materialize, use_implicit_args
from typedqax._value import is_value
from typedqax._ways import ALL, ALWAYS, WHERE, Way, value, vjp

_TOGETHER = 24
"""How many calls are compiled at once."""

_OF_EACH = 12
"""How many calls of one primitive, with the same operands implicit, a handler is tried on."""

OF_EACH_STACK = 3
"""The same for calls with stacks, which take longer to compile."""

_MANY = 8
"""A rule for more primitives than this is for a group of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A call in which a handler gives something else than the dense path.

    Attributes:
        sample: the call.
        ran: the handlers that ran in it.
        transformation: which of its results differs, one of `WHERE`.
        problem: how, a clause that follows the result's name.
        raised_by: the handler that raised, where that is the problem.
    """

    sample: Sample
    ran: tuple[Application, ...]
    transformation: str
    problem: str
    raised_by: Handler | None = None

    @property
    def weight(self) -> tuple[int, int]:
        """The smaller, the better it shows what is wrong."""
        return list(WHERE).index(self.transformation), self.sample.size


class Trials:
    """The calls that were tried, which handlers they reached, and which of them fail.

    Attributes:
        handlers: a table ahead of the installed ones.
        tolerance: how far numbers may differ; None: what the rounding of their dtypes excuses.
        left_out: ways in which nothing is compared.
        wide: where handlers of whole groups of primitives are written.
        most: how many calls of one primitive and kind a handler is tried on.
        samples: the calls that reached a handler, with the handlers that ran.
        comparisons: how many results were compared.
        ran: how many calls each handler ran in, by primitive, name and place.
        often: the same by which operands were implicit, too.
        failures: the calls that do not give what the dense path gives.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        handlers: HandlerTable | None,
        tolerance: float | None,
        without: Sequence[str],
    ) -> None:
        self.handlers, self.tolerance = handlers, tolerance
        self.left_out = [way for way in ALL if way.__name__.partition("_")[0] in without]
        # A handler of many primitives does the same for each of them: one call of each will do.
        self.wide = {str(e.handler.place) for e in entries if len(e.rule.targets) > _MANY}
        self.samples: list[tuple[Sample, tuple[Application, ...]]] = []
        self.comparisons = 0
        self.most = _OF_EACH
        self.ran: Counter[tuple[str, str, str]] = Counter()
        self.often: Counter[tuple[str, str, str, tuple[bool, ...]]] = Counter()
        self.failures: list[Failure] = []

    def look(self, sample: Sample) -> None:
        """Note which handlers a call reaches, by running it abstractly."""
        implicit, dense = self._paths(sample)
        if self._is_enough(sample):
            return
        refusal = _refusal(dense, sample.operands)
        if refusal and sample.asked:
            self.failures.append(Failure(sample, (), "value", f"on dense arrays {refusal}"))
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
            self.failures.append(Failure(sample, ran, "value", _raised(failed), raised_by))
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
                        problems[number, way.__name__] = _raised(error)
                        continue
                    found |= {(number, name): (got[name], want[name]) for name in want}
                    if way is vjp:
                        break
            return found

        operands = [self.samples[number][0].operands for number in numbers]
        try:
            lowered = jax.jit(everything).lower(operands)
            pairs = lowered.compile(compiler_options=_jax.quick_compilation())(operands)
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
                self._fail(number, way.__name__, _raised(error))
                continue
            self._note({(number, name): (got[name], want[name]) for name in want})
            if way is vjp:
                break

    def _note(self, pairs: dict[tuple[int, str], tuple[Any, Any]]) -> None:
        """Note which results, by call and transformation, are not those of the dense path."""
        for (number, name), pair in pairs.items():
            among = [self.samples[number][0].operands, pairs.get((number, "value"))]
            # Of infinite slopes only the order of sums is left.
            got, want = where_finite(*pair) if name in ("jvp", "vjp") else pair
            self.comparisons += 1
            problem = self._difference(got, want, among)
            if problem:
                self._fail(number, name, problem)

    def _ways(self, number: int, few: frozenset[int]) -> Sequence[Way]:
        """The transformations that a call is compared under."""
        ways = ALL if number in few else ALWAYS
        ran = self.samples[number][1]
        if number not in few and all(str(each.place) in self.wide for each in ran):
            ways = (value,)
        return [way for way in ways if way not in self.left_out]

    def _fail(self, number: int, transformation: str, problem: str) -> None:
        sample, ran = self.samples[number]
        self.failures.append(Failure(sample, ran, transformation, problem))

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
            allowed = rounding(jax.tree.leaves((among, want)))
        left, right = jax.tree.leaves(got), jax.tree.leaves(want)
        if len(left) != len(right):
            return f"gives {len(left)} arrays, and the dense path {len(right)}"
        for one, other in zip(left, right, strict=True):
            problem = array_difference(one, other, allowed)
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


def _compiled(way: Way, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """What the transformation `way` of `function` gives, compiled."""
    lowered = jax.jit(lambda *given: way(function, *given)).lower(*operands)
    return lowered.compile(compiler_options=_jax.quick_compilation())(*operands)


def _raised_by(error: Exception, chain: Sequence[Handler]) -> Handler | None:
    """The handler that raised `error`: the one in its traceback, or else the first."""
    frames = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    inside = [h for h in chain if getattr(h.function, "__code__", None) in frames]
    return next(iter([*inside, *chain]), None)


def _raised(error: Exception) -> str:
    return f"raises {type(error).__name__}: {shortened(str(error), 1500)}"
