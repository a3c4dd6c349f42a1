"""Every exception of typedqax: each takes facts, keeps them, and writes its own text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# No text is longer: an error must fit on a screen, whatever the operands are.
_LONGEST = 3_900


def clipped(text: str) -> str:
    """`text`, cut where no reader would go on."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 20] + "\n... (cut here)"


def _listed(first: str, others: Sequence[str]) -> str:
    """The names of primitives: the first few, and how many more."""
    names = [f"`{name}`" for name in (first, *others)]
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def shortened(text: str, longest: int) -> str:
    """`text` in at most so many characters, cut between words as far as it has any."""
    if len(text) <= longest:
        return text
    kept = text[: longest - 1]
    words = kept.rpartition(" ")[0]
    return (words if len(words) > longest // 2 else kept).rstrip(" ,;:") + "…"


def _without_middle(text: str, longest: int) -> str:
    """`text` on one line, its middle left out when it is long."""
    if len(text) <= longest:
        return text
    half = (longest - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


class TypedQaxError(Exception):
    """The base of all errors that typedqax raises; other processes can be sent them."""

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(
    cls: type[TypedQaxError], args: tuple[Any, ...], state: dict[str, Any]
) -> TypedQaxError:
    """An error that was pickled or copied, whatever facts its class takes."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a handler or a class.

    Attributes:
        code: what kind of mistake it is, in a word or two, as `check` names it.
        text: a sentence, with what to write instead.
    """

    code: str
    text: str

    def __str__(self) -> str:
        return self.text


class UsageError(TypedQaxError, TypeError, ValueError):
    """A function of typedqax was given what it does not take.

    Python's own functions raise a TypeError or a ValueError then; this is either.
    """


def shown_argument(value: object) -> str:
    """What a function was given, as an error may show it: never the contents of an array."""
    if isinstance(value, type):
        return value.__qualname__
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return _without_middle(repr(value), 80)
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return name
    return f"<{type(value).__qualname__}>"


def shown_result(value: object) -> str:
    """What came back that is no array, as an error may show it."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return shortened(repr(value), 80)
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"an object of type {type(value).__name__}"


class SignatureError(TypedQaxError, TypeError):
    """A handler's own signature says something that cannot be dispatched on.

    Attributes:
        handler: the handler's name.
        place: its file and line.
        problems: what is wrong with it.
        role: what it was declared as; a field of an implicit array is read by the same rules.
    """

    def __init__(
        self, handler: str, place: str, problems: Sequence[Problem], role: str = "a handler"
    ) -> None:
        super().__init__(handler, place, problems, role)
        self.handler: str = handler
        self.place: str = place
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.role: str = role

    def __str__(self) -> str:
        lead = f"`{self.handler}` ({self.place}) cannot be {self.role}"
        if len(self.problems) == 1:
            return clipped(f"{lead}: {self.problems[0]}")
        return clipped("\n".join([f"{lead}:", *(f"  - {each}" for each in self.problems)]))


@dataclass(frozen=True, slots=True)
class HandlerFacts:
    """A handler, as an error text shows it.

    Attributes:
        name: the function's name.
        signature: its operands with their annotations, as the user wrote them.
        place: its file and line.
        origin: the top-level package that it comes from.
    """

    name: str
    signature: str
    place: str
    origin: str

    def __str__(self) -> str:
        return f"{self.name}({_without_middle(self.signature, 300)})    {self.place}"


@dataclass(frozen=True, slots=True)
class AmbiguousPair:
    """Two handlers of one primitive that match the same call, neither being more specific.

    Attributes:
        primitive: the primitive's name.
        op: how the primitive is written in `ops`; None: it has no op.
        precedence: the precedence of both.
        first: the one that was written first.
        second: the other.
        witness: a call that both match and nothing settles.
        mirrored: whether one is the other with its two operands swapped.
        both_orders: the name of the one that stands for both orders of its operands, if it would be
            the more specific one in either order alone.
        meet: the operands of a handler that would settle it; None: no single handler says it.
        opaque: whether validators that cannot be compared are all that tells them apart.
        partial: handlers that settle a part of the overlap.
        also: other primitives of which the same holds.
        classes: where the classes of the witness stand that neither handler names.
    """

    primitive: str
    op: str | None
    precedence: int
    first: HandlerFacts
    second: HandlerFacts
    witness: str
    mirrored: bool = False
    both_orders: str | None = None
    meet: str | None = None
    opaque: bool = False
    partial: tuple[HandlerFacts, ...] = ()
    also: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()

    def __str__(self) -> str:
        whose = _listed(self.primitive, self.also)
        lines = [
            (
                f"For {whose}, two handlers of precedence {self.precedence} both match "
                "and neither is more specific:"
            ),
            f"  (1) {self.first}",
            f"  (2) {self.second}",
        ]
        if self.partial:
            lines.append("Part of what both match is settled by:")
            lines += [f"      {each}" for each in self.partial[:3]]
        lines += [
            f"For example this call would {'still ' if self.partial else ''}be ambiguous:",
            f"      {_without_middle(self.witness, 300)}",
        ]
        lines += [f"      where {each}" for each in self.classes]
        remedies = self._remedies()
        lines.append("Fix it:" if len(remedies) == 1 else "Fix it in one of these ways:")
        return "\n".join(lines + [f"  - {each}" for each in remedies])

    def _remedies(self) -> list[str]:
        to = f"ops.{self.op}.to" if self.op else "Rule.declare"
        remedies = []
        if self.mirrored:
            remedies.append(
                f"keep one of them for both orders of the operands, and drop the other: "
                f"{to}({self.first.name}, commutative=True)"
            )
        if self.both_orders is not None:
            other = self.second if self.both_orders == self.first.name else self.first
            remedies.append(
                f"`{self.both_orders}` stands for both orders of its operands, `{other.name}` for "
                f"one: give `{other.name}` commutative=True too, or take it from "
                f"`{self.both_orders}`"
            )
        if self.meet is not None:
            remedies.append(
                "add a handler for exactly what both match, in the same table:\n"
                f"      def NAME({_without_middle(self.meet, 300)}, /, ...): ..."
                f"      {to}(NAME)"
            )
        reason = (
            "these validators cannot be compared, only precedence= can order them"
            if self.opaque
            else "say which wins"
        )
        if remedies:
            reason = f"or {reason}"
        if self.first.origin != self.second.origin and self.meet is not None:
            remedies[-1] += (
                "\n      They come from two packages; in your own program: "
                f'tq.install(tq.HandlerTable("glue", {to}(NAME)))'
            )
        higher = self.precedence + 1
        remedies.append(
            f"{reason}: {to}({self.first.name}, precedence={higher}), or {self.second.name}"
        )
        return remedies

    def remedy(self) -> str:
        """What to do, in a clause."""
        if self.mirrored:
            return f"keep {self.first.name} alone, with commutative=True"
        if self.both_orders is not None:
            return f"let both of them, or none, stand for both orders (`{self.both_orders}` does)"
        if self.meet is not None:
            return (
                f"add a handler for ({_without_middle(self.meet, 200)}), or give one a precedence"
            )
        return "give one a precedence"

    def brief(self) -> str:
        """One line, for when there are many."""
        where = f", where {' and '.join(self.classes)}" if self.classes else ""
        return (
            f"`{self.primitive}`: {self.first.name} ({self.first.place}) and "
            f"{self.second.name} ({self.second.place}), as in "
            f"{_without_middle(self.witness, 120)}{where}"
        )


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Two handlers of one primitive for exactly the same operands.

    Attributes:
        primitive: the primitive's name.
        op: how the primitive is written in `ops`; None: it has no op.
        precedence: the precedence of both.
        first: the one that was there.
        second: the one that came; the only one there is, where `replace=True` found nothing.
        missing: whether this is a `replace=True` that found nothing to replace.
        also: other primitives of which the same holds.
    """

    primitive: str
    op: str | None
    precedence: int
    first: HandlerFacts
    second: HandlerFacts
    missing: bool = False
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        to = f"ops.{self.op}.to" if self.op else "Rule.declare"
        if self.missing:
            return (
                f"For {_listed(self.primitive, self.also)}, replace=True found no handler of "
                f"precedence {self.precedence} for exactly these operands:\n"
                f"  {self.second}\n"
                f"Leave replace=True out, or declare it after the one that it replaces."
            )
        return (
            f"For {_listed(self.primitive, self.also)}, two handlers of precedence "
            f"{self.precedence} take "
            "exactly the same operands:\n"
            f"  (1) {self.first}\n"
            f"  (2) {self.second}\n"
            f"Remove one; or, if (2) is to stand in for (1): "
            f"{to}({self.second.name}, replace=True)"
        )

    def brief(self) -> str:
        """One line, for when there are many."""
        what = "nothing to replace" if self.missing else f"same operands as {self.first.name}"
        return f"`{self.primitive}`: {self.second.name} ({self.second.place}): {what}"


class RefusedTableError(TypedQaxError, TypeError):
    """What is wrong with a set of handlers, taken together.

    Attributes:
        subject: what was refused, a sentence.
        pairs: the ambiguous pairs, sorted.
        duplicates: the handlers that are there twice, sorted.
    """

    def __init__(
        self,
        subject: str,
        pairs: Sequence[AmbiguousPair] = (),
        duplicates: Sequence[Duplicate] = (),
    ) -> None:
        super().__init__(subject, pairs, duplicates)
        self.subject: str = subject
        self.pairs: tuple[AmbiguousPair, ...] = tuple(pairs)
        self.duplicates: tuple[Duplicate, ...] = tuple(duplicates)

    def __str__(self) -> str:
        findings: list[AmbiguousPair | Duplicate] = [*self.duplicates, *self.pairs]
        parts, size = [self.subject], len(self.subject)
        whole = 0
        for finding in findings:
            text = str(finding)
            if whole and size + len(text) > _LONGEST // 2:
                break
            parts.append(text)
            size += len(text)
            whole += 1
        rest = findings[whole:]
        if rest:
            parts.append(f"And {len(rest)} more:")
        for shown, finding in enumerate(rest):
            text = f"  {finding.brief()}"
            if size + len(text) > _LONGEST - 300:
                parts.append(f"  ... and {len(rest) - shown} more")
                break
            parts.append(text)
            size += len(text)
        return clipped("\n".join(parts))


class AmbiguityError(RefusedTableError):
    """Two handlers match the same operands and neither is more specific."""


class DuplicateHandlerError(RefusedTableError):
    """Two handlers accept exactly the same operands at the same precedence."""


class AmbiguousAndDuplicateError(AmbiguityError, DuplicateHandlerError):
    """A set of handlers in which some are ambiguous and others are there twice."""


def refusal(
    subject: str, pairs: Sequence[AmbiguousPair], duplicates: Sequence[Duplicate]
) -> RefusedTableError:
    """The one error that says all of it."""
    if pairs and duplicates:
        return AmbiguousAndDuplicateError(subject, pairs, duplicates)
    if pairs:
        return AmbiguityError(subject, pairs)
    return DuplicateHandlerError(subject, (), duplicates)


class ContractError(TypedQaxError, TypeError):
    """A field, an operand, a param or a result is not what its annotation says.

    Attributes:
        subject: what broke its contract, with its file and line.
        problem: what was got, and what was expected.
        origins: what each axis name stands for, and which operand or field said so.
        advice: what to do.
    """

    def __init__(
        self, subject: str, problem: str, *, origins: Sequence[str] = (), advice: str = ""
    ) -> None:
        super().__init__(subject, problem, origins, advice)
        self.subject: str = subject
        self.problem: str = problem
        self.origins: tuple[str, ...] = tuple(origins)
        self.advice: str = advice

    def __str__(self) -> str:
        lines = [f"{self.subject} {self.problem}"]
        lines += [f"    {origin}" for origin in self.origins]
        if self.advice:
            lines.append(f"  {self.advice}")
        return clipped("\n".join(lines))


class ShapeError(TypedQaxError, ValueError):
    """The fields of an implicit array no longer describe an array of its kind."""

    @classmethod
    def below_event_rank(
        cls, owner: str, field: str, shape: tuple[int, ...], rank: int
    ) -> ShapeError:
        """A field has fewer axes than its annotation names."""
        return cls(
            f"{owner}.{field} has shape {shape}, which is {_axes(len(shape))}, but its annotation "
            f"names {rank}. An axis that the annotation names was taken away from outside, by "
            f"slicing, vmap, scan or map over the fields. Index the {owner} itself under "
            f"use_implicit_args, or map an axis in front of the {rank} that it names."
        )

    @classmethod
    def batch_axes(
        cls,
        owner: str,
        field: str,
        batch: tuple[int, ...],
        other_field: str,
        other_batch: tuple[int, ...],
    ) -> ShapeError:
        """Two fields have different batch axes."""
        return cls(
            f"the fields of {owner} have different batch axes: {field} has {batch} in front of the "
            f"axes its annotation names, {other_field} has {other_batch}. Each field has the same "
            f"batch axes, or none."
        )

    @classmethod
    def unplaced(
        cls, owner: str, field: str, shape: tuple[int, ...], batch: tuple[int, ...]
    ) -> ShapeError:
        """A field of open rank may or may not have the batch axes of the others."""
        return cls(
            f"the other fields of {owner} have the batch axes {batch}, in front of those their "
            f"annotations name; whether {owner}.{field}, of shape {shape}, has them too cannot be "
            f"told, since its annotation names no axes. Annotate the axes of each array field, as "
            f'in Float[ArrayValue, "m n"].'
        )

    @classmethod
    def no_array(cls, owner: str, field: str, value: object) -> ShapeError:
        """A field holds no array, so there is no shape to tell."""
        held = "None" if value is None else type(value).__name__
        return cls(
            f"{owner}.{field} holds {held}, not an array, so this {owner} has no "
            f"shape or dtype: it serves as a tree of axes, specs or masks only."
        )


class MaterializationError(TypedQaxError, TypeError):
    """An implicit array would have become dense where that is forbidden."""


class UninitializedAval(TypedQaxError, AttributeError):
    """The shape or dtype of an implicit array was asked for and nothing tells it.

    Attributes:
        owner: the class.
        reason: why `materialize()` does not tell.
        mend: what to do first; empty where nothing but giving them helps.
    """

    def __init__(self, owner: str, reason: str, mend: str = "") -> None:
        self.owner: str = owner
        self.reason: str = reason
        self.mend: str = mend
        give = f"{mend} Or give them" if mend else "Give them"
        super().__init__(
            f"the shape and dtype of {owner} are not known: none were given, and {reason}. "
            f"{give} in one of these ways: {owner}(..., shape=..., dtype=...); "
            f"super().__init__(shape=..., dtype=...) in a hand-written __init__; class attributes "
            f"default_shape and default_dtype; methods compute_shape() and compute_dtype(); or a "
            f"materialize() that does not need them."
        )


class MaterializationWarning(UserWarning):
    """An implicit array was made dense because nothing better could be done."""


class CustomRuleWarning(UserWarning):
    """A derivative was taken without the `custom_jvp` or `custom_vjp` rule of a function.

    The rule speaks of dense arrays, and an array given to it must not become one.
    """
