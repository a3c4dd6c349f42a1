"""Tables: A function of jnp taken for a primitive: `ops.matmul`."""

import typedqax as tq
from mistakes.right import matmul
from typedqax import ops

# E[mypy]: attr-defined: Module has no attribute "matmul"
# E[pyright]: reportAttributeAccessIssue: "matmul" is not a known attribute of module "typedqax.ops"
TABLE = tq.HandlerTable("lora", ops.matmul.to(matmul))
