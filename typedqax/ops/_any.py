"""What every op has, and every group of ops: a primitive of JAX, its params, and rules for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, NotRequired, Protocol, TypedDict, Unpack, cast

import jax
from jax import Array
from typing_extensions import TypeVar

from typedqax import _jax
from typedqax._collecting import refuse
from typedqax._errors import TypedQaxError, UsageError
from typedqax._rule import Rule, Target
from typedqax._transform import apply_primitive

O = TypeVar("O", bound="AnyOp", covariant=True)  # noqa: E741  # an op, as R is a result


class HasAval(Protocol):
    """Whatever has a shape and a dtype: an array of any kind, or `jax.ShapeDtypeStruct`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        ...

    @property
    def dtype(self) -> Any:
        """The dtype; for random keys one of JAX's extended dtypes, which numpy does not know."""
        ...


class Facts(TypedDict):
    """What an op is given besides its name and params.

    Attributes:
        doc: a line on what it computes.
        attribute: its name in `typedqax.ops`, where it is not the primitive's own.
        path: where JAX keeps the primitive, where that is not told by the attribute.
    """

    doc: str
    attribute: NotRequired[str]
    path: NotRequired[str]


class _Doc:
    """`__doc__` of a class of ops and of each op: of an op, what it computes and its params."""

    __slots__ = ("_of_class",)

    def __init__(self, of_class: str | None) -> None:
        self._of_class = of_class

    def __get__(self, op: AnyOp | None, owner: type) -> str | None:
        if op is None:
            return self._of_class
        params = ", ".join(op.params)
        known = "" if op.name == op.attribute else f" In a jaxpr it is `{op.name}`."
        kind = (self._of_class or owner.__name__).partition("\n")[0]
        return f"{op.doc}\n\n{kind}{known}\nParams: {params or 'none'}."


_BOUNDARIES: Mapping[str, Callable[[Any], Any]] = {
    "to": _jax.api_boundary,
    "bind": _jax.transform_boundary,
    "out_aval": _jax.transform_boundary,
}


def _bound_errors(cls: type) -> None:
    """Let the errors of what users call end at their own lines."""
    for name, boundary in _BOUNDARIES.items():
        if name in cls.__dict__:
            setattr(cls, name, boundary(cls.__dict__[name]))


class AnyOp:
    """One primitive of JAX.

    Attributes:
        name: the primitive's own name, as it stands in a jaxpr.
        attribute: its name in `typedqax.ops`.
        params: the names of its params.
        doc: a line on what it computes.
        arity: how many operands it takes; None: it varies.
        multiple_results: whether it gives a list.
    """

    __slots__ = (
        "__weakref__",
        "_defaults",
        "_path",
        "_primitive",
        "attribute",
        "doc",
        "name",
        "params",
    )

    name: str
    attribute: str
    params: tuple[str, ...]
    doc: str
    arity: int | None = None
    multiple_results: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__doc__ = _Doc(cls.__doc__)  # type: ignore[assignment]  # it is a str when asked for
        _bound_errors(cls)

    def __init__(
        self,
        name: str,
        bind: Callable[..., None],
        /,
        **facts: Unpack[Facts],
    ) -> None:
        self.name = name
        self.attribute = facts.get("attribute", name)
        self.doc = facts["doc"]
        code = bind.__code__
        first = code.co_argcount
        written = code.co_varnames[first : first + code.co_kwonlyargcount]
        here = _jax.params_here(name, written)
        self.params = tuple(here.values())
        self._defaults: dict[str, object] = {
            here[param]: default
            for param, default in (bind.__kwdefaults__ or {}).items()
            if param in here
        }
        self._path = facts.get("path", f"{self.attribute.rstrip('_')}_p")
        self._primitive: _jax.Primitive | None = None

    @property
    def primitive(self) -> _jax.Primitive:
        """The `jax.extend.core.Primitive` that this op stands for.

        Raises:
            TypedQaxError: the JAX that runs has no such primitive.
        """
        if self._primitive is None:
            try:
                self._primitive = _jax.primitive_at(self._path)
            except (ImportError, AttributeError) as error:
                raise TypedQaxError(
                    f"{self!r} is not in this version of JAX: there is no {self._path}."
                ) from error
        return self._primitive

    @property
    def is_in_jax(self) -> bool:
        """Whether the JAX that runs has the primitive."""
        try:
            return isinstance(self.primitive, _jax.Primitive)
        except TypedQaxError:
            return False

    @property
    def required(self) -> frozenset[str]:
        """The params that every call of it has."""
        return frozenset(self.params).difference(self._defaults)

    def stands_for(self, primitive: _jax.Primitive) -> bool:
        """Whether this is the op of `primitive`, and not of another one of the same name."""
        return self.is_in_jax and self.primitive is primitive

    def bind(self, *operands: Any, **params: Any) -> Array | list[Array]:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return (
            self._many(operands, params) if self.multiple_results else self._one(operands, params)
        )

    def out_aval(self, *operands: Any, **params: Any) -> HasAval | list[Any]:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        structs = self._many_aval(operands, params)
        return structs if self.multiple_results else structs[0]

    def target(self, first: object | None = None) -> Target:
        """This op as something that a rule is for; `first` goes ahead of a handler's operands."""
        return Target(self.name, first, self.params, self.arity, self.multiple_results)

    def _one(self, operands: tuple[object, ...], params: Mapping[str, object]) -> Array:
        return cast(Array, self._applied(operands, params))

    def _many(self, operands: tuple[object, ...], params: Mapping[str, object]) -> list[Array]:
        return cast(list[Array], self._applied(operands, params))

    def _applied(self, operands: tuple[object, ...], params: Mapping[str, object]) -> object:
        try:
            return apply_primitive(self.primitive, operands, self._bound(params))
        except TypeError as error:
            # A newer JAX may have more params, so they are looked at when it refuses some.
            unknown = ", ".join(repr(name) for name in params if name not in self.params)
            if not unknown or isinstance(error, TypedQaxError):
                raise
            known = ", ".join(self.params) or "none"
            raise TypeError(f"{self!r} has no param {unknown} (it has: {known}).") from error

    def _one_aval(
        self, operands: tuple[object, ...], params: Mapping[str, object]
    ) -> jax.ShapeDtypeStruct:
        return self._many_aval(operands, params)[0]

    def _many_aval(
        self, operands: tuple[object, ...], params: Mapping[str, object]
    ) -> list[jax.ShapeDtypeStruct]:
        bound = self._bound(params)
        avals = [_aval(operand) for operand in operands]
        outs = _jax.out_avals(self.primitive, avals, bound)
        if outs is None:  # call-like primitives have no rule of their own: they are traced
            structs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
            traced = jax.eval_shape(lambda *xs: _jax.bind(self.primitive, xs, bound), *structs)
            outs = traced if self.multiple_results else [traced]
        return [jax.ShapeDtypeStruct(out.shape, out.dtype) for out in outs]

    def _bound(self, params: Mapping[str, object]) -> dict[str, object]:
        return {**self._defaults, **params}

    def __repr__(self) -> str:
        return f"ops.{self.attribute}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self.attribute  # pickled, and copied, as the one of that name in this package


class UnlistedOp(AnyOp):
    """An op for a primitive that this namespace does not list, such as a user's own."""

    def __init__(self, primitive: _jax.Primitive, /) -> None:
        super().__init__(primitive.name, _no_params, doc="A primitive that typedqax does not list.")
        self._primitive = primitive
        self.multiple_results: bool = primitive.multiple_results

    def target(self, first: object | None = None) -> Target:
        """This op as something that a rule is for; nothing is known of its operands and params."""
        return Target(self.name, first, multiple_results=self.multiple_results)

    def __repr__(self) -> str:
        return f"<op of {self.name}>"

    def __reduce__(self) -> tuple[type[UnlistedOp], tuple[_jax.Primitive]]:
        return UnlistedOp, (self.primitive,)


class AnyGroup(Generic[O]):
    """Ops that one handler is for; the handler is given the op first.

    Attributes:
        name: what the group is called in messages.
        ops: its members, but for those whose primitive this JAX does not have.
    """

    __slots__ = ("name", "ops")

    name: str
    ops: tuple[O, ...]
    _kind: type[AnyOp] = AnyOp

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _bound_errors(cls)

    def __init__(self, name: str | None, /, *ops: O) -> None:
        for op in ops:
            if not isinstance(op, self._kind):
                text = (
                    f"{op!r} cannot be in a group with {ops[0]!r}: a {type(self).__name__} holds "
                    f"{self._kind.__name__}s, and it is {type(op).__name__}. One handler for ops "
                    "of different numbers of operands: ops.MixedGroup(name, *ops)."
                )
                refuse(UsageError(text))
        fitting = [op for op in dict.fromkeys(ops) if isinstance(op, self._kind)]
        self.ops = tuple(op for op in fitting if op.is_in_jax)
        self.name = name or " | ".join(map(repr, self.ops))

    def __iter__(self) -> Iterator[O]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __contains__(self, op: object) -> bool:
        return op in self.ops

    def __repr__(self) -> str:
        return self.name

    def targets(self) -> tuple[Target, ...]:
        """The members as what a rule is for, each to be handed to the handler."""
        return tuple(op.target(op) for op in self.ops)


def _no_params() -> None: ...


def members(part: object) -> tuple[Any, ...]:
    """The ops of a group; an op by itself."""
    return part.ops if isinstance(part, AnyGroup) else (part,)


def declared(
    handler: Callable[..., object],
    targets: tuple[Target, ...],
    precedence: int,
    replace: bool,
    *,
    commutative: bool = False,
    first: bool = False,
) -> Rule:
    """The rule that `handler` computes all of these; `first`: it is given the op first."""
    return Rule.declare(
        handler,
        targets,
        precedence=precedence,
        commutative=commutative,
        replace=replace,
        takes_first=first,
    )


def _aval(operand: Any) -> Any:
    shape, dtype = getattr(operand, "shape", None), getattr(operand, "dtype", None)
    if shape is None or dtype is None:
        return jax.typeof(operand)
    return _jax.shaped_array(tuple(shape), dtype)
