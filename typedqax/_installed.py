"""The process-wide table: what is installed, and what is being declared."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from typedqax import _jax
from typedqax._collecting import is_collecting, refuse
from typedqax._errors import AmbiguityError, UsageError, refusal
from typedqax._origin import Origin, Place
from typedqax._ranking import Ranking, note_joining_class, rank, supersede
from typedqax._table import (
    Entry,
    HandlerTable,
    Part,
    Rule,
    current_rules,
    ranked,
    rules_of,
)
from typedqax._unsettled import unsettled
from typedqax._value import ImplicitValue, dispatch_root


@dataclass(frozen=True, slots=True)
class _Hold:
    """A part that is installed, and who wants it there.

    Attributes:
        part: a table, or the rule of a decorated handler.
        kept: `install` put it there, so only `uninstall` takes it out.
        blocks: how many `with installed(...)` blocks it serves.
    """

    part: Part
    kept: bool
    blocks: int = 0


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Installed:
    """What is installed at one moment; a change makes a new one, and the old one goes.

    Attributes:
        version: how many changes there have been.
        holds: the parts.
        rules: their rules, without those that a later run of their definition superseded.
        rankings: by primitive, their handlers in order; one that did not change is the same
            object as before.
    """

    version: int
    holds: tuple[_Hold, ...]
    rules: tuple[Rule, ...]
    rankings: Mapping[str, Ranking]


@dataclass(slots=True)
class _Declaring:
    """What has been declared in a `with declaring():` block."""

    parts: list[Part] = field(default_factory=list)
    classes: list[type] = field(default_factory=list)


_lock = threading.RLock()
_now = Installed(0, (), (), {})
_declaring: ContextVar[_Declaring | None] = ContextVar("typedqax_declaring", default=None)
_PLACE = Place("<installed>", 0)


def installed_now() -> Installed:
    """What is installed at this moment."""
    return _now


def installed_version() -> int:
    """A number that changes whenever what is installed does."""
    return _now.version


def installed_table() -> HandlerTable:
    """All that is installed, as one table."""
    now = _now
    origin = Origin.of("typedqax", "installed", _PLACE, None)
    return HandlerTable.assembled("installed", now.rules, now.rankings, origin)


@_jax.api_boundary
def install(table: HandlerTable) -> None:
    """Add a table to the process-wide one, or, when they do not go together, change nothing.

    A table that is there already stays as it is; one that comes again from the same definition
    (a module reloaded, a notebook cell run twice) takes the place of its earlier self.

    Raises:
        AmbiguityError, DuplicateHandlerError: with what is installed, some call would have more
            than one best handler.

    Example:
        >>> import typedqax as tq
        >>> from typedqax.arrays import EYE, Eye
        >>> tq.install(EYE)
        >>> tq.use_implicit_args(lambda x: x.T)(Eye(3))
        Eye f32[3,3](extent=f32[3,0])
    """
    given: object = table
    if isinstance(given, HandlerTable):
        _declare(given)
    else:
        refuse(UsageError(f"install takes a HandlerTable; got {_described(given)}"))


def install_rule(*rules: Rule) -> None:
    """Add the rules of one decorated handler to the process-wide table, as `install` does."""
    _declare(*rules)


def _declare(*parts: Part) -> None:
    declaring = _declaring.get()
    if declaring is not None:
        declaring.parts += parts
        return
    what = (
        f"table {parts[0].name!r}"
        if isinstance(parts[0], HandlerTable)
        else f"handler `{parts[0].handler.name}`"
    )
    with _lock:
        _change(_with_parts(_now.holds, parts, kept=True), parts, f"{what} was not installed")


@_jax.api_boundary
def uninstall(table: HandlerTable) -> None:
    """Take a table out of the process-wide one.

    Raises:
        UsageError: it is not installed.

    Example:
        >>> import typedqax as tq
        >>> from typedqax.arrays import EYE
        >>> tq.install(EYE)
        >>> tq.uninstall(EYE)
    """
    declaring = _declaring.get()
    if declaring is not None and table in declaring.parts:
        declaring.parts.remove(table)
        return
    with _lock:
        if not any(hold.part is table and hold.kept for hold in _now.holds):
            names = ", ".join(
                _described(hold.part) for hold in _now.holds if not _is_rule(hold.part)
            )
            text = f"{_described(table)} is not installed; installed are: {names or 'none'}"
            refuse(UsageError(text))
            return
        _replace_holds(
            hold if hold.part is not table else replace(hold, kept=False) for hold in _now.holds
        )


@contextmanager
def installed(table: HandlerTable) -> Iterator[HandlerTable]:
    """Inside the block, `table` is part of the process-wide table.

    Blocks nest, and end as they should when an exception leaves them.

    Raises:
        AmbiguityError, DuplicateHandlerError: as for `install`.

    Example:
        >>> import typedqax as tq
        >>> from typedqax.arrays import EYE, Eye
        >>> with tq.installed(EYE):
        ...     tq.use_implicit_args(lambda x: x.T)(Eye(3))
        Eye f32[3,3](extent=f32[3,0])
    """
    if not isinstance(table, HandlerTable):
        raise UsageError(f"installed takes a HandlerTable; got {_described(table)}")
    with _lock:
        holds = _with_parts(_now.holds, [table], kept=False)
        _change(holds, [table], f"table {table.name!r} was not installed")
    try:
        yield table
    finally:
        with _lock:
            _replace_holds(
                hold if hold.part is not table else replace(hold, blocks=hold.blocks - 1)
                for hold in _now.holds
            )


@contextmanager
def installed_kept() -> Iterator[None]:
    """What is installed or taken out inside the block is as it was at its end."""
    global _now  # noqa: PLW0603  # the one owner of the installed table
    before = _now
    try:
        yield
    finally:
        with _lock:
            if _now is not before:  # not the old object: its version would name two tables
                _now = replace(before, version=_now.version + 1)


@contextmanager
def nothing_installed() -> Iterator[None]:
    """Inside the block nothing is installed, and what it installs is forgotten at its end."""
    global _now  # noqa: PLW0603  # the one owner of the installed table
    with installed_kept():
        with _lock:
            _now = Installed(_now.version + 1, (), (), {})
        yield


@contextmanager
def declaring() -> Iterator[None]:
    """What is installed, decorated or joined by a class inside the block is checked at its end.

    All of it together, so that the order inside plays no part. When the check fails, or an
    exception leaves the block, none of it is registered.

    Example:
        >>> import typedqax as tq
        >>> from typedqax.arrays import EYE, ZEROS
        >>> with tq.declaring():
        ...     tq.install(ZEROS)
        ...     tq.install(EYE)
    """
    outer = _declaring.get()
    block = _Declaring()
    token = _declaring.set(block)
    try:
        yield
    finally:
        _declaring.reset(token)
    if outer is not None:
        outer.parts += block.parts
        outer.classes += block.classes
        return
    with _lock:
        _change(
            _with_parts(_now.holds, block.parts, kept=True),
            block.parts,
            "what this `with declaring():` block declares was not registered",
            classes=block.classes,
        )


def recheck_class(cls: type[ImplicitValue]) -> None:
    """Ask whether a class that has just been defined makes installed handlers ambiguous.

    Only a class that derives from two implicit classes can: it is of both kinds at once.

    Raises:
        AmbiguityError: it does; names the class.
    """
    supersede(cls)
    if not _joins(cls):
        return
    note_joining_class(cls)
    block = _declaring.get()
    if block is not None:
        block.classes.append(cls)
        return
    with _lock:
        try:
            _change(_now.holds, [], "", classes=[cls])
        except AmbiguityError:
            # The class statement fails, but the class exists until it is collected; as long as it
            # derived from both kinds, it would make them share calls.
            cls.__bases__ = (_root_of(cls),)
            raise


def _root_of(cls: type) -> type:
    """The class that stands for any implicit array among the bases of `cls`."""
    return next(base for base in cls.__mro__ if dispatch_root(base) is ImplicitValue)


def _joins(cls: type) -> bool:
    """Whether `cls` is of two kinds, neither being a kind of the other."""
    kinds = {
        dispatch_root(base)
        for base in cls.__bases__
        if issubclass(base, ImplicitValue) and dispatch_root(base) is not ImplicitValue
    }
    return len(kinds) > 1 and not any(kinds <= set(kind.__mro__) for kind in kinds)


def _is_rule(part: Part) -> bool:
    return isinstance(part, Rule)


def _described(table: object) -> str:
    if isinstance(table, type):
        return f"the class {table.__name__}"
    return f"table {table.name!r}" if isinstance(table, HandlerTable) else type(table).__name__


def _with_parts(holds: Iterable[_Hold], parts: Iterable[Part], *, kept: bool) -> list[_Hold]:
    """`holds` with more parts; those already there are only held once more."""
    found = {hold.part: hold for hold in holds}
    for part in parts:
        hold = found.get(part, _Hold(part, kept=False))
        found[part] = replace(hold, kept=True) if kept else replace(hold, blocks=hold.blocks + 1)
        if kept:
            for other in [each for each in found if _supersedes(part, each)]:
                del found[other]
    return list(found.values())


def _active_parts(holds: Sequence[_Hold]) -> list[Part]:
    """The parts, without tables whose later self serves a block."""
    tables = [hold.part for hold in holds if isinstance(hold.part, HandlerTable)]
    return [
        hold.part for hold in holds if not any(_supersedes(table, hold.part) for table in tables)
    ]


def _supersedes(part: Part, other: Part) -> bool:
    """Whether `part` is `other` from a later run of its definition."""
    if isinstance(part, HandlerTable) and isinstance(other, HandlerTable):
        return part.origin.supersedes(other.origin)
    if isinstance(part, Rule) and isinstance(other, Rule):
        return part.handler.origin.supersedes(other.handler.origin)
    return False


def _replace_holds(holds: Iterable[_Hold]) -> None:
    """Go over to fewer holds, which is never refused.

    What remains may depend on a handler that leaves, to settle which of two others runs; then a
    call of that kind is an AmbiguityError when it is made, and `check` lists it.
    """
    global _now  # noqa: PLW0603  # the one owner of the installed table
    remaining = tuple(hold for hold in holds if hold.kept or hold.blocks)
    _now = _assembled(remaining)


def _assembled(holds: tuple[_Hold, ...]) -> Installed:
    parts = _active_parts(holds)
    rules = current_rules(rule for part in parts for rule in rules_of(part))
    if rules == _now.rules:
        return Installed(_now.version, holds, rules, _now.rankings)
    known = [_now.rankings, *(part.rankings for part in parts if isinstance(part, HandlerTable))]
    rankings = ranked(rules, known)
    return Installed(_now.version + 1, holds, rules, rankings)


def _change(
    holds: Iterable[_Hold], new: Sequence[Part], refused: str, *, classes: Sequence[type] = ()
) -> None:
    """Go over to `holds`, unless `new` parts or `classes` make some call ambiguous."""
    global _now  # noqa: PLW0603  # the one owner of the installed table
    after = _assembled(tuple(holds))
    together = {rule for part in new for rule in rules_of(part)}
    wrong = [_refusable(ranking, together) for ranking in after.rankings.values()]
    pairs, duplicates = unsettled(each for each in wrong if not each.sound)
    if (pairs or duplicates) and not is_collecting():
        raise refusal(f"{refused} (nothing changed).", pairs, duplicates)
    if classes:
        after = _with_classes(after, classes)
    _now = after


def _refusable(ranking: Ranking, together: set[Rule]) -> Ranking:
    """`ranking` with those findings alone that the rules `together` may not bring.

    Handlers of two packages are each right on their own, and no import may break a program that
    never makes the call on which they meet: those are left for `check`, and for the call.
    """

    def refused(*entries: Entry) -> bool:
        new = [entry.rule in together for entry in entries]
        packages = {entry.handler.origin.package for entry in entries}
        return all(new) or (any(new) and len(packages) == 1)

    return replace(
        ranking,
        ties=tuple(tie for tie in ranking.ties if refused(tie.first, tie.second)),
        duplicates=tuple(pair for pair in ranking.duplicates if refused(*pair)),
        idle=tuple(entry for entry in ranking.idle if refused(entry)),
    )


def _with_classes(now: Installed, classes: Sequence[type]) -> Installed:
    """`now` after the handlers that may take operands of new classes were compared again.

    Raises:
        AmbiguityError: some call with an operand of such a class would be ambiguous.
    """
    rankings = dict(now.rankings)
    fresh: list[Ranking] = []
    for primitive, ranking in now.rankings.items():
        if ranking.current:
            continue
        again = rank(primitive, ranking.declared, [ranking])
        had = {(tie.first, tie.second) for tie in ranking.ties}
        new = tuple(tie for tie in again.ties if (tie.first, tie.second) not in had)
        fresh.append(replace(again, ties=new, duplicates=(), idle=()))
        rankings[primitive] = again
    pairs, _ = unsettled(fresh)
    if pairs and not is_collecting():
        raise refusal(_joining_text(classes), pairs, ())
    return Installed(now.version + 1, now.holds, now.rules, rankings)


def _joining_text(classes: Sequence[type]) -> str:
    shown = ", ".join(
        f"class {cls.__name__}({', '.join(base.__name__ for base in cls.__bases__)})"
        for cls in classes
    )
    return (
        f"{shown} joins several kinds of implicit array, which makes handlers ambiguous for it. "
        "Define it and the handlers that settle this in one `with declaring():` block."
    )
