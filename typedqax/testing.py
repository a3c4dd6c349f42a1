"""Help for tests of implicit arrays: `check_handlers`, and fixtures for pytest.

Fixtures come with `pytest_plugins = ["typedqax.testing"]` in the `conftest.py` at a project's root:
`forbid_materialization` makes it an error in the test that anything becomes dense for want of a
handler; `explained()` tells what the test has done so far with implicit arrays; what a test with
`installed_kept` installs or declares is gone after it.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import jax

from typedqax import _jax
from typedqax._array import ImplicitArray
from typedqax._aval import look
from typedqax._dispatch import ANY_PRIMITIVE, Tables
from typedqax._errors import UsageError, shown_argument
from typedqax._explain import Explanation
from typedqax._handler import Handler
from typedqax._installed import installed_kept
from typedqax._materialization import materialization
from typedqax._recording import Record, recording
from typedqax._samples import Held, Sample, held_like, sampled_primitives, samples
from typedqax._table import Entry, HandlerTable, live_tables
from typedqax._transform import materialize
from typedqax._trials import OF_EACH_STACK, Failure, Trials
from typedqax._value import is_value
from typedqax._ways import WHERE, two

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


@_jax.api_boundary
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
    instances = _instances(cls, examples)
    _refuse_options(cls, handlers, skip, without)
    for instance in instances:
        jax.eval_shape(materialize, instance)  # without a dense path there is nothing to hold to
    every = _entries(cls, Tables.of(handlers))
    entries = [entry for entry in every if entry.target.name not in skip]
    tried = Trials(entries, handlers, tolerance, without)
    with materialization("allow", cls), _jax.whole_tracebacks():
        for sample in _samples(entries, instances, calls):
            if sample.primitive not in skip:
                tried.look(sample)
        tried.most = OF_EACH_STACK
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


def _instances(cls: type[A], examples: Iterable[A]) -> list[A]:
    """The examples, in a list.

    Raises:
        UsageError: `cls` is no class of implicit arrays, or an example none of its instances.
    """
    given, listed = cast(object, cls), cast(object, examples)
    if not (isinstance(given, type) and issubclass(given, ImplicitArray)):
        raise UsageError(
            f"check_handlers({shown_argument(given)}, ...): give a subclass of ImplicitArray first."
        )
    if is_value(listed) or not isinstance(listed, Iterable):  # rows would be taken for them
        array = "an array" if is_value(listed) else shown_argument(listed)
        raise UsageError(
            f"check_handlers({cls.__name__}, ...): examples is a list of arrays, not {array}: "
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
    return instances


def _refuse_options(
    cls: type, handlers: object, skip: Sequence[str], without: Sequence[str]
) -> None:
    """Refuse what `check_handlers` would not understand.

    Raises:
        UsageError: it is among these.
    """
    asked = f"check_handlers({cls.__name__}, ..., "
    if handlers is not None and not isinstance(handlers, HandlerTable):
        raise UsageError(f"{asked}handlers={shown_argument(handlers)}): give a HandlerTable.")
    if isinstance(skip, str):
        raise UsageError(f"{asked}skip={skip!r}): give a list of names of primitives, [{skip!r}].")
    unknown = [name for name in without if name not in ("jvp", "vjp", "vmap", "scan")]
    if unknown or isinstance(without, str):
        raise UsageError(
            f"{asked}without={without!r}): a list of some of 'jvp', 'vjp', 'vmap' and 'scan'."
        )


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
            stack = jax.tree.map(two, instance)
            if len(look(stack).batch) > len(look(instance).batch):
                yield from samples(primitive, stack)


# --- texts ----------------------------------------------------------------------------------------


def _text(failures: Sequence[Failure]) -> str:
    worst = min(failures, key=lambda failure: failure.weight)
    lines = [
        f"{_named(worst)} is not the dense path:",
        f"  call: {worst.sample}",
        f"  {WHERE[worst.transformation]} {worst.problem}",
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


def _named(failure: Failure) -> str:
    if failure.raised_by is not None:
        return f"handler {_at(failure.raised_by)} for `{failure.sample.primitive}`"
    own = [each for each in failure.ran if each.primitive == failure.sample.primitive]
    for each in own or failure.ran:
        return f"handler {each.handler} ({each.place}) for `{each.primitive}`"
    return f"`{failure.sample.primitive}`"


def _report(entries: Sequence[Entry], tried: Trials) -> HandlerReport:
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

    @pytest.fixture(name="installed_kept")
    def _installed_kept() -> Iterator[None]:
        """What the test installs, takes out or declares is after it as it was before."""
        with installed_kept():
            yield

    @pytest.fixture
    def explained() -> Iterator[Callable[[], Explanation]]:
        """What the test has done so far with implicit arrays, whenever it asks."""
        with recording() as record:
            yield lambda: Explanation.of(Record(list(record.events)))
