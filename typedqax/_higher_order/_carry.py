"""The type of a loop's carry: a fixed point, reached by making dense what does not keep it."""

from __future__ import annotations

from collections.abc import Callable

from typedqax._higher_order._rewrite import Slots, join


def settle_carry(initial: Slots, body: Callable[[Slots], Slots]) -> Slots:
    """The carry types that `body` keeps, starting from those of the initial values.

    Each value can only go from implicit to dense, so there are at most as many rounds as values.
    """
    carry = initial
    while True:
        joined = join(carry, body(carry))
        if all(a.same_type(b) for a, b in zip(carry, joined, strict=True)):
            return joined
        carry = joined
