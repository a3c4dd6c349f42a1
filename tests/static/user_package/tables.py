"""All of this package's handlers in one table."""

# pyright: strict, reportUnknownMemberType=false

import typedqax as tq
from user_package.circulant import CIRCULANT
from user_package.low_rank import LOW_RANK

STRUCTURED = tq.HandlerTable("structured", CIRCULANT, LOW_RANK)
