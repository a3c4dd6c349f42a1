"""ImplicitArray as users see it: the class, and how subclasses are defined."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_args, get_origin, overload

import jax
import numpy as np
from jax.core import ShapedArray
from jax.typing import DTypeLike
from typing_extensions import TypeIs, dataclass_transform

from typedqax import _jax
from typedqax._aval import aval_of, batch_shape, given_dtype
from typedqax._call import running_handler
from typedqax._collecting import refuse
from typedqax._construction import (
    DtypeProperty,
    ShapeProperty,
    SignatureProperty,
    assignment,
    construction,
    initialize,
)
from typedqax._errors import Problem, TypedQaxError
from typedqax._fields import class_error, field_error, no_leaf_problem
from typedqax._installed import recheck_class
from typedqax._materialization import Policy, class_was_defined
from typedqax._members import ArrayMembers
from typedqax._primitive_rules import register_rules
from typedqax._scope import one_array
from typedqax._shown import shown
from typedqax._trace import ImplicitTracer
from typedqax._transform import materialize_under_trace
from typedqax._value import AUX, EXTENT, FieldNames, ImplicitValue, field_names

T = TypeVar("T")


# --- fields --------------------------------------------------------------------------------------


# Spelt out: some checkers look for `kw_only` and `init` in the signature of what makes a field.
@overload
def aux_field(
    *,
    default: T,
    init: bool = ...,
    repr: bool = ...,
    hash: bool | None = ...,
    compare: bool = ...,
    metadata: Mapping[Any, Any] | None = ...,
    kw_only: bool = ...,
) -> T: ...
@overload
def aux_field(
    *,
    default_factory: Callable[[], T],
    init: bool = ...,
    repr: bool = ...,
    hash: bool | None = ...,
    compare: bool = ...,
    metadata: Mapping[Any, Any] | None = ...,
    kw_only: bool = ...,
) -> T: ...
@overload
def aux_field(
    *,
    init: bool = ...,
    repr: bool = ...,
    hash: bool | None = ...,
    compare: bool = ...,
    metadata: Mapping[Any, Any] | None = ...,
    kw_only: bool = ...,
) -> Any: ...
def aux_field(**options: Any) -> Any:
    """A dataclass field that is auxiliary data: part of the pytree's structure, not a leaf.

    Its value is hashable and holds no arrays; two arrays whose auxiliary data differ are of
    different types to JAX, so a change of it recompiles.

    Args:
        options: those of `dataclasses.field`.

    Example:
        >>> import typedqax as tq
        >>> class Scaled(tq.ImplicitArray):
        ...     x: tq.ArrayValue
        ...     factor: float = tq.aux_field(default=1.0)
        ...     def materialize(self):
        ...         return self.factor * self.x
    """
    metadata = {**(options.pop("metadata", None) or {}), AUX: True}
    return dataclasses.field(metadata=metadata, **options)


def _is_hidden_member(name: str) -> bool:
    """Whether a field of this name would hide a member of arrays, or of tracers, or be hidden."""
    if name.startswith("_"):
        return hasattr(ImplicitTracer, name)
    return hasattr(jax.Array, name) or name in _OWN_MEMBERS or hasattr(ImplicitTracer, name)


_OWN_MEMBERS = frozenset(
    {
        "aval",
        "default_dtype",
        "default_shape",
        "compute_dtype",
        "compute_shape",
        "materialize",
    }
)


# --- the class -----------------------------------------------------------------------------------


@dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field, aux_field))
class _Dataclass:
    """What makes each subclass of ImplicitArray a dataclass to a type checker (PEP 681)."""

    if TYPE_CHECKING:

        def __init_subclass__(
            cls,
            *,
            materialization: Policy = "warn",
            warn_on_materialize: bool = True,
            commute_ops: bool = True,
        ) -> None: ...


# What a type checker sees as the default of `shape=` and `dtype=`: a value of any type.
_GIVEN: Any = None


class ImplicitArray(ImplicitValue, _Dataclass, ArrayMembers, ABC):
    """An array that is stored as something else than its numbers.

    A subclass names its fields, which are the children of a pytree (arrays, dense or implicit) or
    auxiliary data (`aux_field`), and says in `materialize` which dense array it stands for. It is a
    dataclass, with or without the decorator. `use_implicit_args` lets functions take it in place of
    a dense array, and handlers say which primitives can do better than `materialize` first.

    The fields are checked against their annotations when an instance is made. They may be assigned;
    then their axes are checked when the instance is passed to a function under `use_implicit_args`,
    and all of it when it becomes dense. `dataclasses.replace` makes a changed copy that is checked.

    The shape and dtype are keyword arguments `shape=` and `dtype=` of each constructor, or class
    attributes `default_shape` and `default_dtype`, or what the methods `compute_shape` and
    `compute_dtype` give, or else those of `materialize()`, evaluated abstractly. Leaves may have
    batch axes in front of those that their annotations name: vmap, scan and slices work on leaves.

    Class keywords:
        materialization: `"warn"`, `"allow"` or `"error"`: what happens when an instance becomes
            dense for want of a handler. `"error"` is for classes whose dense form loses meaning.
        warn_on_materialize: False is `materialization="allow"`.
        commute_ops: whether `primitive_handler` takes both orders of a commutative primitive.

    Raises:
        ContractError: the fields of a new instance are not what their annotations say.
        TypeError: a field would hide a member of arrays, or is not set by `__init__`.

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

    _is_dispatch_root: ClassVar[bool] = True
    _materialization_policy: ClassVar[Policy] = "warn"
    _commute_ops: ClassVar[bool] = True

    default_shape: ClassVar[tuple[int, ...] | None] = None
    default_dtype: ClassVar[DTypeLike | None] = None

    if TYPE_CHECKING:
        # Keyword arguments of every constructor.
        shape: ShapeProperty = aux_field(kw_only=True, default=_GIVEN)  # pyright: ignore[reportIncompatibleMethodOverride]  # settable, where jax.Array's is not
        dtype: DtypeProperty = aux_field(kw_only=True, default=_GIVEN)  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
    else:
        shape = ShapeProperty()
        dtype = DtypeProperty()

    # --- definition ---

    if not TYPE_CHECKING:
        __hash__ = None  # arrays compare by element
        __signature__ = SignatureProperty()

        @_jax.api_boundary
        def __init_subclass__(
            cls,
            *,
            materialization: Policy | None = None,
            warn_on_materialize: bool | None = None,
            commute_ops: bool | None = None,
            **keywords: Any,
        ) -> None:
            super().__init_subclass__(**keywords)
            _set_class_keywords(cls, materialization, warn_on_materialize, commute_ops)
            _refuse_hidden_members(cls)
            _refuse_text_fields(cls)
            inherited: list[str] = []
            for base in cls.__bases__:
                if issubclass(base, ImplicitArray) and base is not ImplicitArray:
                    names = field_names(base)
                    inherited += (*names.children, *names.auxiliary)
            _refuse_described_fields(cls, inherited)
            # In the class's own dict, so that an explicit @dataclass leaves them alone.
            cls.__eq__ = cls.__eq__
            cls.__hash__ = None
            if "__repr__" not in cls.__dict__:
                cls.__repr__ = cls.__repr__
            _remember_local_names(cls)
            recheck_class(cls)

        def __new__(cls, /, *args: Any, **kwargs: Any) -> ImplicitArray:
            field_names(cls)  # settles the fields, and with them __init__
            return super().__new__(cls)

        def __init__(
            self, *, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None
        ) -> None:
            initialize(self, shape=shape, dtype=dtype)

        @classmethod
        def _settle_fields(cls) -> FieldNames:
            generated = "__init__" not in cls.__dict__
            if cls is ImplicitArray:
                return FieldNames((), ())
            if "__dataclass_fields__" in cls.__dict__:  # an explicit @dataclass
                generated = cls.__init__.__code__.co_filename == "<string>"
            else:
                inherits = generated and _inherits_written_init(cls)
                dataclasses.dataclass(eq=False, repr=False, init=not inherits)(cls)
            if "__init__" in cls.__dict__:
                cls.__init__ = construction(cls.__init__, takes_shape=generated)
            names = super()._settle_fields()
            if names.auxiliary:  # a class of arrays alone need not pay for it
                cls.__setattr__ = assignment(cls.__setattr__)
            return names

    # --- meaning ---

    @abstractmethod
    def materialize(self) -> jax.Array:
        """The dense array that this one stands for; ordinary JAX code on the fields."""

    @property
    def _kept_shape(self) -> tuple[int, ...] | None:
        """The shape that a copy by `dataclasses.replace` is given too."""
        if field_names(type(self)).children:
            shape = self.__dict__.get("_given_shape")
            return None if shape is None else batch_shape(self) + tuple(shape)
        extent = self.__dict__.get(EXTENT)
        computes = type(self).compute_shape is not ImplicitValue.compute_shape
        return None if computes or extent is None else tuple(extent.shape[:-1])

    @property
    def _kept_dtype(self) -> Any:
        """The dtype that a copy by `dataclasses.replace` is given too."""
        return None if self.__dict__.get("_given_dtype") is None else given_dtype(self)

    def _materialize_under_trace(self) -> Any:
        return materialize_under_trace(self)

    @property
    def aval(self) -> ShapedArray:
        """The abstract value it stands for: shape and dtype, never weakly typed."""
        return aval_of(self)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __repr__(self) -> str:
        return shown(self)


def is_implicit(value: object, /) -> TypeIs[ImplicitArray]:
    """Whether `value` is an implicit array.

    Inside a function that runs under `use_implicit_args`, the tracer that stands for an implicit
    array counts as one. In an inner function that JAX stages or differentiates it is a tracer of
    JAX's, of which nobody knows yet: ask before. To a type checker every implicit array is a
    `jax.Array`, so `isinstance(value, jax.Array)`, which is False at run time, does not tell.

    Example:
        >>> import jax.numpy as jnp, typedqax as tq
        >>> tq.is_implicit(jnp.ones(3))
        False
    """
    return isinstance(value, ImplicitArray)


# --- definition ----------------------------------------------------------------------------------


def _set_class_keywords(
    cls: Any, policy: Policy | None, warn: bool | None, commute: bool | None
) -> None:
    if policy is not None and policy not in get_args(Policy):
        text = f"materialization={policy!r} is none of {', '.join(map(repr, get_args(Policy)))}"
        refuse(class_error(cls, Problem("class", text)))
        policy = None
    if warn is not None and policy is not None:
        text = "give materialization= or warn_on_materialize=, not both"
        refuse(class_error(cls, Problem("class", text)))
    if warn is not None:
        policy = "warn" if warn else "allow"
    if policy is not None:
        cls._materialization_policy = policy
        class_was_defined()
    if commute is not None:
        cls._commute_ops = commute


def _refuse_hidden_members(cls: Any) -> None:
    annotated = inspect.get_annotations(cls)
    hidden = [
        name
        for name, annotation in annotated.items()
        if _is_hidden_member(name) and not _is_class_variable(annotation)
    ]
    for name in hidden:
        text = "it would hide the member of arrays that has this name; rename the field"
        if name in ("shape", "dtype"):
            text += (
                ". The shape and dtype are keyword arguments of every implicit array, or class "
                "attributes default_shape and default_dtype"
            )
        refuse(field_error(cls, name, Problem("field", text), role="a field"))


def _is_class_variable(annotation: object) -> bool:
    """Whether an annotation, which may be postponed, is that of no field."""
    if isinstance(annotation, str):
        return re.match(r"\s*(\w+\.)*ClassVar\b", annotation) is not None
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _refuse_described_fields(cls: Any, inherited: Iterable[str]) -> None:
    """Refuse fields that the class does not let an instance keep."""
    annotated = inspect.get_annotations(cls)
    for name in itertools.filterfalse(_is_hidden_member, (*annotated, *inherited)):
        found = inspect.getattr_static(cls, name, None)
        if not inspect.isdatadescriptor(found) or _is_class_variable(annotated.get(name)):
            continue
        if inspect.ismemberdescriptor(found):
            text = "__slots__ keeps it out of the instance's __dict__; leave out slots"
        else:
            text = (
                f"the class has a {type(found).__name__} of this name, which stands between "
                f"the field and the instance's __dict__; give one of them another name"
            )
        refuse(field_error(cls, name, Problem("field", text), role="a field"))


def _refuse_text_fields(cls: Any) -> None:
    """Refuse text that is a leaf of the pytree; the rest is looked at when annotations have values.

    A postponed annotation has none yet: it may name what is defined further below.
    """
    for name, annotation in inspect.get_annotations(cls).items():
        default = cls.__dict__.get(name)
        if isinstance(default, dataclasses.Field) and default.metadata.get(AUX, False):
            continue
        kind = {"str": str, "bytes": bytes}.get(annotation, annotation)
        if kind in (str, bytes):
            refuse(field_error(cls, name, no_leaf_problem(name, kind.__name__)))


def _remember_local_names(cls: Any) -> None:
    """What the scope that defines `cls` has for names in postponed annotations, if any."""
    annotations = [a for a in inspect.get_annotations(cls).values() if isinstance(a, str)]
    if not annotations:
        return
    frame = _jax.running_frame()  # towards the class statement
    while frame.f_back is not None and frame.f_code.co_name in ("__new__", "__init_subclass__"):
        frame = frame.f_back  # of a metaclass, or of a subclass that has the hook too
    module = sys.modules.get(cls.__module__)
    if frame.f_locals is frame.f_globals and frame.f_globals is getattr(module, "__dict__", None):
        return
    words = set(re.findall(r"\w+", " ".join(annotations)))
    visible = {**frame.f_globals, **frame.f_locals}
    cls._defining_locals = {name: visible[name] for name in words if name in visible}


def _inherits_written_init(cls: Any) -> bool:
    """Whether `cls` adds no fields to a base whose `__init__` was written by hand."""
    if inspect.get_annotations(cls):
        return False
    for base in cls.__mro__[1:]:
        init = base.__dict__.get("__init__")
        if base is ImplicitArray or init is None:
            continue
        return getattr(init, "_is_written", False)
    return False


# --- in the hands of JAX -------------------------------------------------------------------------


def _canonicalize(value: Any) -> Any:
    """An implicit array that lax or `bind` was given: lifted where the transform runs."""
    one = one_array(value)
    if one is not None:
        return one
    frame = running_handler()
    if frame is not None:
        handler = frame.entry.handler
        raise TypedQaxError(
            f"{shown(value)} reached a JAX primitive in the handler {handler.name} "
            f"({handler.place}), where it is the implicit array itself. There its fields, its "
            f"operators and methods (x @ w, w.sum(), ...), typedqax.materialize(w), the primitives "
            f"in typedqax.ops (ops.neg.bind(w)) and functions under use_implicit_args work."
        )
    raise TypedQaxError(
        f"{shown(value)} reached a JAX primitive outside use_implicit_args. Pass it as an "
        f"argument to a function wrapped in use_implicit_args; outside of one, its operators and "
        f"methods (x @ w, w.sum(), ...) and typedqax.materialize(w) work."
    )


register_rules()
_jax.register_canonicalizer(ImplicitValue, _canonicalize)
# What a primitive is given goes through the canonicalizer first, so that this lets nothing through.
_jax.register_aval(ImplicitValue, aval_of)
