from typing import Any

from jaxlib._jax import pytree as pytree

def __getattr__(name: str) -> Any: ...  # incomplete: only pytree is needed
