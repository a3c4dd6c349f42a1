"""Ready-made implicit arrays, each with the table of its handlers.

No table is installed by importing this: `tq.install(LORA)`, or `handlers=LORA` for one function.
The tables go together: `tq.HandlerTable("mine", LORA, INT8, EYE)`.
"""

from __future__ import annotations

from typedqax.arrays.eye import EYE as EYE
from typedqax.arrays.eye import Eye as Eye
from typedqax.arrays.int8 import INT8 as INT8
from typedqax.arrays.int8 import Int8Matrix as Int8Matrix
from typedqax.arrays.lora import LORA as LORA
from typedqax.arrays.lora import LoraMatrix as LoraMatrix
from typedqax.arrays.masked import MASKED as MASKED
from typedqax.arrays.masked import MaskedArray as MaskedArray
from typedqax.arrays.zeros import ZEROS as ZEROS
from typedqax.arrays.zeros import Zeros as Zeros

__all__ = [
    "Zeros",
    "Eye",
    "LoraMatrix",
    "Int8Matrix",
    "MaskedArray",
    "ZEROS",
    "EYE",
    "LORA",
    "INT8",
    "MASKED",
]
