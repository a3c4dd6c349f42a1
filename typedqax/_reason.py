"""A reason: a sentence that knows the places in files that it names."""

from __future__ import annotations

from collections.abc import Callable

from typedqax._origin import Place


class Reason(str):
    """Why something happened: text, to all who do not show places in a way of their own.

    Attributes:
        parts: what it is made of.
    """

    __slots__ = ("parts",)
    parts: tuple[str | Place, ...]

    def __new__(cls, *parts: str | Place) -> Reason:
        """The parts in a row; those of a reason among them are its own."""
        whole: list[str | Place] = []
        for part in parts:
            whole += part.parts if isinstance(part, Reason) else (part,)
        reason = super().__new__(cls, "".join(map(str, whole)))
        reason.parts = tuple(whole)
        return reason

    def with_places(self, shown: Callable[[Place], str]) -> str:
        """The same with each place as `shown` gives it."""
        return "".join(shown(part) if isinstance(part, Place) else part for part in self.parts)
