"""Findings about handlers of a base that take a class with another `materialize`."""

from __future__ import annotations

import inspect
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from typedqax._class_findings import finding_of
from typedqax._findings import Finding
from typedqax._rule import Entry, Rule
from typedqax._rule_findings import never_of
from typedqax._signature import ArrayPattern, Signature, shown_class
from typedqax._value import ImplicitValue, dispatch_root
from typedqax._written import WrittenClass


class Taken(NamedTuple):
    """An operand for which a handler names a class.

    Attributes:
        entry: the handler under one of its primitives.
        place: which operand; of the further ones that it takes, the first.
        pattern: what it says of that.
    """

    entry: Entry
    place: int
    pattern: ArrayPattern

    @property
    def target(self) -> str:
        """What the handler is for, as an attribute of `ops`."""
        return self.entry.target.attribute


Naming: TypeAlias = Mapping[type, Sequence[Taken]]
"""By class, the operands for which handlers name it."""


def naming(rules: Iterable[Rule]) -> Naming:
    """By class, the operands for which these rules name it."""
    found: dict[type, list[Taken]] = defaultdict(list)
    for rule in rules:
        for entry, form in itertools.product(rule.entries, rule.signature.forms):
            for place, parameter in enumerate((*form.parameters, *filter(None, [form.rest]))):
                for pattern in parameter.alternatives:
                    for cls in pattern.classes:
                        found[cls].append(Taken(entry, place, pattern))
    return found


def inherited_handler_findings(cls: type[ImplicitValue], named: Naming) -> Iterator[Finding]:
    """That handlers of a base take a class which stands for something else.

    A handler that is declared for a class takes what is derived from it. Where that overrides
    `materialize`, the handler computes what the one of the base gives.
    """
    kin, others = _by_materialize(cls)
    has: dict[str, list[Signature]] = defaultdict(list)
    for taken in itertools.chain.from_iterable(named.get(each, ()) for each in kin):
        has[taken.target].append(taken.entry.signature)
    taking: dict[str, list[Taken]] = {}
    for base in others:
        missed = [
            taken
            for taken in named.get(base, ())
            # What no array of the base can be was written for a class derived from it.
            if not never_of(base, taken.pattern)
            and not never_of(cls, taken.pattern)
            and all(kin.isdisjoint(own.classes_at(taken.place)) for own in has[taken.target])
        ]
        if missed:
            taking[shown_class(base)] = missed
    if not taking:
        return
    every = [taken for each in taking.values() for taken in each]
    targets = sorted(
        {
            f"`{taken.target}`" + (f" (operand {taken.place + 1})" if has[taken.target] else "")
            for taken in every
        }
    )
    functions = [taken.entry.handler for taken in every]
    origins = sorted({(each.place.file, each.place.line, each.name) for each in functions})
    handlers = [f"`{handler}` ({file}:{line})" for file, line, handler in origins]
    name, shown = cls.__qualname__, " and ".join(taking)
    text = (
        f"`{name}` overrides the `materialize` of {shown}, and handlers declared for {shown} take "
        f"it, which compute what that one gives: {_first_three(handlers)}, for "
        f"{_first_three(targets)}; declare handlers for {name}, or derive both from an abstract "
        f"class that they have in common, or see with typedqax.testing.check_handlers that these "
        f"agree with {name}.materialize"
    )
    yield finding_of(cls, WrittenClass.of(cls).place(), "inherited-handler", text, "warning")


def _by_materialize(cls: type[ImplicitValue]) -> tuple[frozenset[type], list[type[ImplicitValue]]]:
    """The class with those of its bases that have its `materialize`; and the bases it overrides.

    Those of a base with its `materialize` are left out: that is the one to be told of them.
    """
    own = inspect.getattr_static(cls, "materialize", None)
    bases = [
        base
        for base in cls.__mro__[1:]
        if issubclass(base, ImplicitValue) and dispatch_root(base) is base is not ImplicitValue
    ]
    alike = [base for base in bases if inspect.getattr_static(base, "materialize", None) is own]
    others = [
        base
        for base in bases
        if base not in alike
        and not inspect.isabstract(base)
        and not any(issubclass(each, base) for each in alike)
    ]
    return frozenset((cls, *alike)), [] if inspect.isabstract(cls) else others


def _first_three(names: Sequence[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
