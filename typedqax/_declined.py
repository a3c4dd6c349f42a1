"""The value a handler returns to decline a call, in a form that type checkers narrow."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Declined(Enum):
    """What a handler's return annotation mentions when the handler may decline.

    A one-member enum: both mypy and pyright narrow `result is DECLINE`, which they do not for
    an instance of an ordinary class.

    Example:
        >>> import jax.numpy as jnp, typedqax as tq
        >>> from typedqax.arrays import Eye
        >>> def negate(x: Eye, /) -> Eye | tq.Declined:
        ...     return tq.DECLINE
        >>> table = tq.HandlerTable("declines", tq.ops.neg.to(negate))
        >>> print(tq.which("neg", Eye(2), handlers=table).winner.reason)
        the most specific one; it may decline
    """

    DECLINE = "DECLINE"

    def __repr__(self) -> str:
        return "DECLINE"


DECLINE: Final = Declined.DECLINE
