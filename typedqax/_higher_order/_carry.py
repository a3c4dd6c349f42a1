"""The type of a loop's carry: a fixed point, reached by making dense what does not keep it."""

from __future__ import annotations

from collections.abc import Callable

from typedqax._higher_order._rewrite import Rewritten, Slots, dense_in, join

REASON = "the loop's body gives another type than it takes"
REMEDY = "let the loop's body keep the type of its carry, with handlers for what it does to it"
_MOST_CAUSES = 2


def settle_carry(
    initial: Slots, body: Callable[[Slots], Rewritten]
) -> tuple[Slots, tuple[tuple[str, ...], ...]]:
    """The carry types that `body` keeps, starting from the initial ones; why each is not kept.

    Each value can only go from implicit to dense, so there are at most as many rounds as values.
    """
    carry = initial
    reasons: list[tuple[str, ...]] = [(REASON,)] * len(carry)
    while True:
        drafted = body(carry)
        joined = join(carry, drafted.slots[: len(carry)])
        if all(a.same_type(b) for a, b in zip(carry, joined, strict=True)):
            return joined, tuple(reasons)
        causes = dense_in(drafted)[:_MOST_CAUSES]
        reasons = [
            told if a.same_type(b) else (REASON, *causes)
            for told, a, b in zip(reasons, carry, joined, strict=True)
        ]
        carry = joined
