"""Implicit arrays for JAX: arrays that are stored as something else than their numbers.

Example:
    >>> import jax, jax.numpy as jnp, typedqax as tq
    >>> from jaxtyping import Float
    >>> class LowRank(tq.ImplicitArray):
    ...     a: Float[tq.ArrayValue, "m r"]
    ...     b: Float[tq.ArrayValue, "n r"]
    ...     def materialize(self) -> Float[jax.Array, "m n"]:
    ...         return self.a @ self.b.T
    >>> LowRank(jnp.ones((3, 1)), jnp.ones((4, 1)))
    LowRank f32[3,4](a=f32[3,1], b=f32[4,1])
"""

from __future__ import annotations

from typedqax import _jax
from typedqax import ops as ops
from typedqax._array import ImplicitArray as ImplicitArray
from typedqax._array import aux_field as aux_field
from typedqax._array import is_implicit as is_implicit
from typedqax._check import check as check
from typedqax._contracts import checks as checks
from typedqax._declaring import primitive_handler as primitive_handler
from typedqax._declined import DECLINE as DECLINE
from typedqax._declined import Declined as Declined
from typedqax._errors import AmbiguityError as AmbiguityError
from typedqax._errors import ContractError as ContractError
from typedqax._errors import CustomRuleWarning as CustomRuleWarning
from typedqax._errors import DuplicateHandlerError as DuplicateHandlerError
from typedqax._errors import MaterializationError as MaterializationError
from typedqax._errors import MaterializationWarning as MaterializationWarning
from typedqax._errors import ShapeError as ShapeError
from typedqax._errors import SignatureError as SignatureError
from typedqax._errors import TypedQaxError as TypedQaxError
from typedqax._errors import UninitializedAval as UninitializedAval
from typedqax._errors import UsageError as UsageError
from typedqax._explain import explain as explain
from typedqax._installed import declaring as declaring
from typedqax._installed import install as install
from typedqax._installed import installed as installed
from typedqax._installed import uninstall as uninstall
from typedqax._materialization import materialization as materialization
from typedqax._table import HandlerTable as HandlerTable
from typedqax._transform import default_handler as default_handler
from typedqax._transform import materialize as materialize
from typedqax._transform import use_implicit_args as use_implicit_args
from typedqax._value import ArrayValue as ArrayValue
from typedqax._which import which as which

_jax.exclude_package_from_tracebacks()
