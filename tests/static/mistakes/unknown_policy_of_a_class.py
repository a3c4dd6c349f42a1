"""Classes: A policy that there is not, as a class keyword."""

from jax import Array

import typedqax as tq


# E[mypy]: arg-type: Argument "materialization" to "__init_subclass__" of "_Dataclass" has incompatible type "Literal['never']"; expected "Literal['warn', 'allow',
# E[pyright]: reportGeneralTypeIssues: Incorrect keyword arguments for __init_subclass__ method
# E[pyright]: reportArgumentType: "Literal['never']" is not assignable to type "Literal['error']"
class Scaled(tq.ImplicitArray, materialization="never"):
    x: Array

    def materialize(self) -> Array:
        return self.x
