"""Tables: An op misspelt: `ops.dot_generl`."""

import typedqax as tq
from mistakes.right import matmul
from typedqax import ops

# E[mypy]: attr-defined: Module has no attribute "dot_generl"
# E[pyright]: reportAttributeAccessIssue: "dot_generl" is not a known attribute of module "typedqax.ops"
TABLE = tq.HandlerTable("lora", ops.dot_generl.to(matmul))
