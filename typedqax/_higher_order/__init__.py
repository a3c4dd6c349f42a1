"""What the trace does with primitives that hold functions: one module per family.

What it does with the few others that have a rule stands in `typedqax._leafwise`.
"""

from __future__ import annotations

from typing import Final

from typedqax._higher_order.call import call
from typedqax._higher_order.cond import cond
from typedqax._higher_order.custom_jvp import custom_jvp
from typedqax._higher_order.custom_vjp import custom_vjp
from typedqax._higher_order.jit import jit
from typedqax._higher_order.linear_solve import linear_solve
from typedqax._higher_order.other import other
from typedqax._higher_order.remat import remat
from typedqax._higher_order.remat_opt import remat_opt
from typedqax._higher_order.scan import scan
from typedqax._higher_order.shard_map import shard_map
from typedqax._higher_order.while_loop import while_loop
from typedqax._leafwise import LEAFWISE
from typedqax._trace import HigherOrderRules

RULES: Final = HigherOrderRules(
    primitives={
        **LEAFWISE,
        "jit": jit,
        "cond": cond,
        "while": while_loop,
        "scan": scan,
        "remat2": remat,
        "checkpoint": remat,
        "custom_linear_solve": linear_solve,
        "remat_opt": remat_opt,
    },
    other=other,
    call=call,
    custom_jvp=custom_jvp,
    custom_vjp=custom_vjp,
    shard_map=shard_map,
)
"""The rules of every family."""
