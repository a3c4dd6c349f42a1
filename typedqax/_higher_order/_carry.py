"""The type of a loop's carry: a fixed point, reached by making dense what does not keep it."""

from __future__ import annotations

from collections.abc import Callable

from typedqax._call import Call
from typedqax._higher_order._dense import refusing_class
from typedqax._higher_order._rewrite import Rewritten, Slots, dense_in, forbidden_in, join

REASON = "the loop's body gives another type than it takes"
REMEDY = "let the loop's body keep the type of its carry, with handlers for what it does to it"
_MOST_CAUSES = 2


def settle_carry(
    call: Call, initial: Slots, body: Callable[[Slots], Rewritten]
) -> tuple[Slots, tuple[tuple[str, ...], ...]]:
    """The carry types that `body` keeps, starting from the initial ones; why each is not kept.

    Each value can only go from implicit to dense, so there are at most as many rounds as values.

    Raises:
        MaterializationError: a value would have to that must not, for what the body does to it.
    """
    carry = initial
    reasons: list[tuple[str, ...]] = [(REASON,)] * len(carry)
    while True:
        drafted = body(carry)
        joined = join(carry, drafted.slots[: len(carry)])
        changes = [not a.same_type(b) for a, b in zip(carry, joined, strict=True)]
        if not any(changes):
            return joined, tuple(reasons)
        # What must not become dense does so last: it may keep its type once others are dense.
        may = [
            changed and refusing_class(slot.stand_in(), call.primitive.name) is None
            for changed, slot in zip(changes, carry, strict=True)
        ]
        if not any(may):
            for event in forbidden_in(drafted.events):  # that is the reason, and not the loop
                call.trace.run.happened(event)
            may = changes
        causes = dense_in(drafted)[:_MOST_CAUSES]
        reasons = [
            (REASON, *causes) if changed else told
            for told, changed in zip(reasons, may, strict=True)
        ]
        carry = tuple(
            [b if changed else a for a, b, changed in zip(carry, joined, may, strict=True)]
        )
