"""The operators and methods of `jax.Array`, on implicit arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from typedqax import _jax
from typedqax._scope import densify_for, is_inside, one_array
from typedqax._transform import apply

# fmt: off
_TWO_SIDED = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul",
    "and", "or", "xor", "lshift", "rshift",
)

_OPERATORS = (
    *[f"__{prefix}{name}__" for name in _TWO_SIDED for prefix in ("", "r")],
    "__neg__", "__pos__", "__abs__", "__invert__", "__round__",
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__getitem__",
)

_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip",
    "compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten",
    "max", "mean", "min", "nonzero", "prod", "ptp", "ravel", "repeat", "reshape", "round",
    "searchsorted", "sort", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose",
    "var", "view",
)

# fmt: on

_PROPERTIES = ("T", "mT", "real", "imag")


def _method(name: str) -> Callable[..., Any]:
    """The method of arrays, on an implicit one: as the transform of the same method."""

    def call(array: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, name)(*args, **kwargs)

    @_jax.transform_boundary
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return apply(call, (self, *args), kwargs)

    method.__name__ = call.__name__ = name
    method.__qualname__ = f"ImplicitArray.{name}"
    method.__doc__ = f"As `jax.Array.{name}`."
    return method


def _property(name: str) -> property:
    def get(array: Any, /) -> Any:
        return getattr(array, name)

    get.__name__ = name
    get.__doc__ = f"As `jax.Array.{name}`."
    return property(lambda self: apply(get, (self,), {}), doc=get.__doc__)


if TYPE_CHECKING:
    ArrayMembers = jax.Array
else:

    class ArrayMembers:
        """The members of jax.Array that an implicit array has; to a type checker, all of them."""

        # numpy leaves its operators to ours: np_array + implicit runs __radd__.
        __array_ufunc__ = None
        __array_priority__ = 1000

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            return np.asarray(densify_for(self, "numpy.asarray"), dtype=dtype)

        @property
        def __jax_array__(self) -> Callable[[], jax.Array]:
            """What jnp functions ask for; there is none outside a transform, nor for operators.

            Those of an array leave `array @ implicit` to the operators here. They run the handlers
            where a function under the transform has not yet come to an implicit array, and of one
            of a stack that is mapped.
            """
            if is_inside() and not _jax.asked_by_operator():
                return functools.partial(one_array, self)
            # JAX 0.10.0 would call None.
            raise AttributeError(f"{type(self).__name__} is outside use_implicit_args.")

        @property
        def at(self) -> _IndexUpdates:
            """Updated copies, as `jax.Array.at`."""
            return _IndexUpdates(self)

        def block_until_ready(self) -> ImplicitArray:
            """This array, when all that it is made of has been computed."""
            jax.block_until_ready(jax.tree.leaves(self))
            return self

        def __len__(self) -> int:
            if not self.shape:
                raise TypeError("len() of an array without axes")
            return self.shape[0]

        def __iter__(self) -> Iterator[Any]:
            return (self[index] for index in range(len(self)))

        def __reversed__(self) -> Iterator[Any]:
            return (self[index] for index in reversed(range(len(self))))

        def __bool__(self) -> bool:
            return bool(densify_for(self, "bool"))

        def __int__(self) -> int:
            return int(densify_for(self, "int"))

        def __float__(self) -> float:
            return float(densify_for(self, "float"))

        def __complex__(self) -> complex:
            return complex(densify_for(self, "complex"))

        def __index__(self) -> int:
            return densify_for(self, "index").__index__()

        def __format__(self, spec: str) -> str:
            return format(densify_for(self, "format"), spec) if spec else str(self)

        def item(self, *args: int) -> Any:
            """The element at an index, as a Python scalar."""
            return densify_for(self, "item").item(*args)

        def tolist(self) -> Any:
            """The elements as nested lists."""
            return densify_for(self, "tolist").tolist()

        @property
        def nbytes(self) -> int:
            """The bytes that the dense array would have."""
            return self.size * self.dtype.itemsize

        @property
        def itemsize(self) -> int:
            """The bytes of one element of the dense array."""
            return self.dtype.itemsize

    for _name in (*_OPERATORS, *_METHODS):
        setattr(ArrayMembers, _name, _method(_name))
    for _name in _PROPERTIES:
        setattr(ArrayMembers, _name, _property(_name))
    for _name in (
        "__array__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__format__",
    ):  # fmt: skip
        setattr(ArrayMembers, _name, _jax.api_boundary(ArrayMembers.__dict__[_name]))


class _IndexUpdates:
    """`x.at`, which is indexed next."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> _IndexUpdate:
        return _IndexUpdate(self._array, index)


class _IndexUpdate:
    """`x.at[index]`: its methods give updated copies."""

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array, self._index = array, index

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def update(array: Any, index: Any, /, *args: Any, **kwargs: Any) -> Any:
            return getattr(array.at[index], name)(*args, **kwargs)

        return lambda *args, **kwargs: apply(update, (self._array, self._index, *args), kwargs)
