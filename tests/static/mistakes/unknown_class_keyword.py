"""Classes: A class keyword misspelt."""

from jax import Array

import typedqax as tq


# E[mypy]: call-arg: Unexpected keyword argument "materialisation" for "__init_subclass__" of "_Dataclass"; did you mean "materialization"?
# E[pyright]: reportGeneralTypeIssues: Incorrect keyword arguments for __init_subclass__ method
# E[pyright]: reportCallIssue: No parameter named "materialisation"
class Scaled(tq.ImplicitArray, materialisation="error"):
    x: Array

    def materialize(self) -> Array:
        return self.x
