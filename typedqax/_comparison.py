"""How the calls of one handler lie to those of another, each pair compared once."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from functools import cached_property

from typedqax._domains import Calls
from typedqax._relations import Universe
from typedqax._rule import Entry, Rule
from typedqax._signature import Dense, Signature


class Relation(Enum):
    """How the calls of one handler lie to those of another that shares some of them."""

    NARROWER = "all of the first's are the second's"
    WIDER = "all of the second's are the first's"
    EQUAL = "the same"
    CROSSING = "each has some that the other has not"


class Comparisons:
    """Relations between rules, remembered while several primitives are ranked.

    A rule for a group of ops stands under each of them, beside the same other rules.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        self._classes: dict[Rule, tuple[int, ...] | None] = {}
        self._relations: dict[tuple[Rule, Rule, Calls], Relation | None] = {}

    @cached_property
    def universe(self) -> Universe:
        """The classes that the rules can tell apart."""
        return Universe.of(*(rule.signature for rule in self._rules))

    def relation(self, first: Entry, second: Entry) -> Relation | None:
        """How `first` lies to `second`; None if they share no call."""
        key = (first.rule, second.rule, first.calls)
        if key not in self._relations:
            self._relations[key] = self._compared(first, second)
        return self._relations[key]

    def _compared(self, first: Entry, second: Entry) -> Relation | None:
        mine, others = self.class_masks(first), self.class_masks(second)
        if mine is not None and others is not None and len(mine) == len(others):
            return self._compared_by_class(mine, others)
        a, b, calls, universe = first.signature, second.signature, first.calls, self.universe
        # Beside a handler that any operands of some classes reach, one question is enough.
        narrower, wider = self._inside_by_class(a, others), self._inside_by_class(b, mine)
        if not (narrower or wider) and calls.shared(a, b, universe) is None:
            return None
        narrower = narrower or calls.outside(a, b, universe) is None
        wider = wider or calls.outside(b, a, universe) is None
        if narrower:
            return Relation.EQUAL if wider else Relation.NARROWER
        return Relation.WIDER if wider else Relation.CROSSING

    def class_masks(self, entry: Entry) -> tuple[int, ...] | None:
        """The classes of each operand as bits, if nothing but classes decides; else None."""
        rule = entry.rule
        if rule not in self._classes:
            self._classes[rule] = self._class_masks(rule)
        return self._classes[rule]

    def _class_masks(self, rule: Rule) -> tuple[int, ...] | None:
        signature = rule.signature
        simple = signature.forms[0].simple if len(signature.forms) == 1 else None
        if simple is None or not (
            signature.shape_free and signature.dtype_free and not signature.has_predicates
        ):
            return None
        if signature.forms[0].least < len(simple[0]):
            return None
        return tuple(self.universe.mask(pattern.classes) for pattern in simple[0])

    def _compared_by_class(self, mine: tuple[int, ...], others: tuple[int, ...]) -> Relation | None:
        """The same where classes alone decide, as they mostly do: fifty times quicker.

        No domain asks for a class, but that one of the operands is implicit.
        """
        dense = self.universe.mask(frozenset({Dense}))
        common = [a & b for a, b in zip(mine, others, strict=True)]
        if not all(common) or not any(each & ~dense for each in common):
            return None
        narrower = _within(mine, others, dense)
        wider = _within(others, mine, dense)
        if narrower:
            return Relation.EQUAL if wider else Relation.NARROWER
        return Relation.WIDER if wider else Relation.CROSSING

    def _inside_by_class(self, signature: Signature, over: tuple[int, ...] | None) -> bool:
        """Whether the classes alone show that all that `signature` accepts is of `over`."""
        if over is None or signature.variadic or len(signature.forms) != 1:
            return False
        if signature.forms[0].least != len(over) or signature.fixed_arity != len(over):
            return False
        return all(
            not self.universe.mask(signature.classes_at(place)) & ~mask
            for place, mask in enumerate(over)
        )

    def covered_by_class(self, first: Entry, second: Entry, cover: Entry) -> bool:
        """Whether the classes alone show that `cover` takes every call that the two share."""
        a, b, over = (self.class_masks(each) for each in (first, second, cover))
        if a is None or b is None or over is None:
            return False
        return len(a) == len(b) == len(over) and all(
            not mine & other & ~mask for mine, other, mask in zip(a, b, over, strict=True)
        )


def _within(mine: tuple[int, ...], others: tuple[int, ...], dense: int) -> bool:
    """Whether all calls of these classes, one implicit at least, are among the others'."""
    for place, (mask, other) in enumerate(zip(mine, others, strict=True)):
        outside = mask & ~other
        if outside & ~dense:
            return False
        if outside and any(m & ~dense for at, m in enumerate(mine) if at != place):
            return False
    return True
