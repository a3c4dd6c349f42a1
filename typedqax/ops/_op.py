"""Ops by how many operands they take and how many results they give, and groups of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import NotImplementedType
from typing import (
    Concatenate,
    Generic,
    Unpack,
    overload,
)

import jax
from jax import Array
from jax.typing import ArrayLike
from typing_extensions import ParamSpec, TypeVar

from typedqax import _jax
from typedqax._declined import Declined
from typedqax._rule import Rule
from typedqax.ops._any import AnyGroup, AnyOp, Facts, HasAval, declared, members

# What a handler is given by keyword. Open by default, so that `op: ops.BinaryOp` in a handler's
# signature means an op of any params.
P = ParamSpec("P", default=...)
# The same as `bind` takes them: what JAX allows to be None may be left out.
B = ParamSpec("B", default=...)
# Operands and params together, for an op that takes any number of operands.
V = ParamSpec("V", default=...)

W = TypeVar("W", bound=Array)
X = TypeVar("X", bound=Array)
Y = TypeVar("Y", bound=Array)
Z = TypeVar("Z", bound=Array)
R = TypeVar("R", bound=Array | Declined | NotImplementedType)
Rs = TypeVar("Rs", bound=Sequence[Array] | Declined | NotImplementedType)
AnyR = TypeVar("AnyR", bound=Array | Sequence[Array] | Declined | NotImplementedType)


class NullaryOp(AnyOp, Generic[B]):
    """An op without operands. No implicit array can reach it, so it has no handlers."""

    __slots__ = ()
    arity: int | None = 0

    def __init__(self, name: str, bind: Callable[B, None], /, **facts: Unpack[Facts]) -> None:
        super().__init__(name, bind, **facts)

    def bind(self, /, *args: B.args, **params: B.kwargs) -> Array:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._one(args, params)

    def out_aval(self, /, *args: B.args, **params: B.kwargs) -> jax.ShapeDtypeStruct:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._one_aval(args, params)


class _FixedOp(AnyOp, Generic[P, B]):
    """An op that always takes the same number of operands."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        params: Callable[P, None],
        bind: Callable[B, None],
        /,
        **facts: Unpack[Facts],
    ) -> None:
        del params  # for type checkers
        super().__init__(name, bind, **facts)


class UnaryOp(_FixedOp[P, B]):
    """An op of one operand."""

    __slots__ = ()
    arity: int | None = 1

    def to(
        self,
        handler: Callable[Concatenate[X, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace)

    def bind(self, x: ArrayLike, /, *args: B.args, **params: B.kwargs) -> Array:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._one((x, *args), params)

    def out_aval(
        self, x: HasAval | ArrayLike, /, *args: B.args, **params: B.kwargs
    ) -> jax.ShapeDtypeStruct:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._one_aval((x, *args), params)

    def __or__(self, other: UnaryOp[P, ...] | UnaryGroup[P], /) -> UnaryGroup[P]:
        return UnaryGroup(None, self, *members(other))


class BinaryOp(_FixedOp[P, B]):
    """An op of two operands."""

    __slots__ = ()
    arity: int | None = 2

    def to(
        self,
        handler: Callable[Concatenate[X, Y, P], R],
        /,
        *,
        precedence: int = 0,
        commutative: bool = False,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace, commutative=commutative)

    def bind(self, x: ArrayLike, y: ArrayLike, /, *args: B.args, **params: B.kwargs) -> Array:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._one((x, y, *args), params)

    def out_aval(
        self, x: HasAval | ArrayLike, y: HasAval | ArrayLike, /, *args: B.args, **params: B.kwargs
    ) -> jax.ShapeDtypeStruct:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._one_aval((x, y, *args), params)

    def __or__(self, other: BinaryOp[P, ...] | BinaryGroup[P], /) -> BinaryGroup[P]:
        return BinaryGroup(None, self, *members(other))


class TernaryOp(_FixedOp[P, B]):
    """An op of three operands."""

    __slots__ = ()
    arity: int | None = 3

    def to(
        self,
        handler: Callable[Concatenate[X, Y, Z, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace)

    def bind(
        self, x: ArrayLike, y: ArrayLike, z: ArrayLike, /, *args: B.args, **params: B.kwargs
    ) -> Array:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._one((x, y, z, *args), params)

    def out_aval(
        self,
        x: HasAval | ArrayLike,
        y: HasAval | ArrayLike,
        z: HasAval | ArrayLike,
        /,
        *args: B.args,
        **params: B.kwargs,
    ) -> jax.ShapeDtypeStruct:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._one_aval((x, y, z, *args), params)

    def __or__(self, other: TernaryOp[P, ...] | TernaryGroup[P], /) -> TernaryGroup[P]:
        return TernaryGroup(None, self, *members(other))


class QuaternaryOp(_FixedOp[P, B]):
    """An op of four operands."""

    __slots__ = ()
    arity: int | None = 4

    def to(
        self,
        handler: Callable[Concatenate[X, Y, Z, W, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace)

    def bind(
        self,
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        w: ArrayLike,
        /,
        *args: B.args,
        **params: B.kwargs,
    ) -> Array:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._one((x, y, z, w, *args), params)

    def out_aval(
        self,
        x: HasAval | ArrayLike,
        y: HasAval | ArrayLike,
        z: HasAval | ArrayLike,
        w: HasAval | ArrayLike,
        /,
        *args: B.args,
        **params: B.kwargs,
    ) -> jax.ShapeDtypeStruct:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._one_aval((x, y, z, w, *args), params)

    def __or__(self, other: QuaternaryOp[P, ...] | QuaternaryGroup[P], /) -> QuaternaryGroup[P]:
        return QuaternaryGroup(None, self, *members(other))


class MultiUnaryOp(_FixedOp[P, B]):
    """An op of one operand that gives a list."""

    __slots__ = ()
    arity: int | None = 1
    multiple_results: bool = True

    def to(
        self,
        handler: Callable[Concatenate[X, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace)

    def bind(self, x: ArrayLike, /, *args: B.args, **params: B.kwargs) -> list[Array]:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._many((x, *args), params)

    def out_aval(
        self, x: HasAval | ArrayLike, /, *args: B.args, **params: B.kwargs
    ) -> list[jax.ShapeDtypeStruct]:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._many_aval((x, *args), params)

    def __or__(self, other: MultiUnaryOp[P, ...] | MultiUnaryGroup[P], /) -> MultiUnaryGroup[P]:
        return MultiUnaryGroup(None, self, *members(other))


class MultiBinaryOp(_FixedOp[P, B]):
    """An op of two operands that gives a list."""

    __slots__ = ()
    arity: int | None = 2
    multiple_results: bool = True

    def to(
        self,
        handler: Callable[Concatenate[X, Y, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace)

    def bind(self, x: ArrayLike, y: ArrayLike, /, *args: B.args, **params: B.kwargs) -> list[Array]:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._many((x, y, *args), params)

    def out_aval(
        self, x: HasAval | ArrayLike, y: HasAval | ArrayLike, /, *args: B.args, **params: B.kwargs
    ) -> list[jax.ShapeDtypeStruct]:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._many_aval((x, y, *args), params)

    def __or__(self, other: MultiBinaryOp[P, ...] | MultiBinaryGroup[P], /) -> MultiBinaryGroup[P]:
        return MultiBinaryGroup(None, self, *members(other))


class MultiQuaternaryOp(_FixedOp[P, B]):
    """An op of four operands that gives a list."""

    __slots__ = ()
    arity: int | None = 4
    multiple_results: bool = True

    def to(
        self,
        handler: Callable[Concatenate[X, Y, Z, W, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace)

    def bind(
        self,
        x: ArrayLike,
        y: ArrayLike,
        z: ArrayLike,
        w: ArrayLike,
        /,
        *args: B.args,
        **params: B.kwargs,
    ) -> list[Array]:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._many((x, y, z, w, *args), params)

    def out_aval(
        self,
        x: HasAval | ArrayLike,
        y: HasAval | ArrayLike,
        z: HasAval | ArrayLike,
        w: HasAval | ArrayLike,
        /,
        *args: B.args,
        **params: B.kwargs,
    ) -> list[jax.ShapeDtypeStruct]:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._many_aval((x, y, z, w, *args), params)

    def __or__(
        self, other: MultiQuaternaryOp[P, ...] | MultiQuaternaryGroup[P], /
    ) -> MultiQuaternaryGroup[P]:
        return MultiQuaternaryGroup(None, self, *members(other))


class _VariedOp(AnyOp, Generic[P, V, B]):
    """An op that takes any number of operands."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        params: Callable[P, None],
        handler: Callable[V, None],
        bind: Callable[B, None],
        /,
        **facts: Unpack[Facts],
    ) -> None:
        del params, handler  # for type checkers
        super().__init__(name, bind, **facts)


class VariadicOp(_VariedOp[P, V, B]):
    """An op of any number of operands; its handler may take `*operands`."""

    __slots__ = ()

    @overload
    def to(
        self, handler: Callable[V, R], /, *, precedence: int = 0, replace: bool = False
    ) -> Rule: ...

    @overload
    def to(
        self,
        handler: Callable[Concatenate[X, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule: ...

    @overload
    def to(
        self,
        handler: Callable[Concatenate[X, Y, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule: ...

    @overload
    def to(
        self,
        handler: Callable[Concatenate[X, Y, Z, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule: ...

    @overload
    def to(
        self,
        handler: Callable[Concatenate[X, Y, Z, W, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule: ...

    def to(
        self, handler: Callable[..., R], /, *, precedence: int = 0, replace: bool = False
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace)

    def bind(self, /, *args: B.args, **params: B.kwargs) -> Array:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._one(args, params)

    def out_aval(self, /, *args: B.args, **params: B.kwargs) -> jax.ShapeDtypeStruct:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._one_aval(args, params)


class MultiVariadicOp(_VariedOp[P, V, B]):
    """An op of any number of operands that gives a list; its handler may take `*operands`."""

    __slots__ = ()
    multiple_results: bool = True

    @overload
    def to(
        self, handler: Callable[V, Rs], /, *, precedence: int = 0, replace: bool = False
    ) -> Rule: ...

    @overload
    def to(
        self,
        handler: Callable[Concatenate[X, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule: ...

    @overload
    def to(
        self,
        handler: Callable[Concatenate[X, Y, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule: ...

    @overload
    def to(
        self,
        handler: Callable[Concatenate[X, Y, Z, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule: ...

    @overload
    def to(
        self,
        handler: Callable[Concatenate[X, Y, Z, W, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule: ...

    def to(
        self, handler: Callable[..., Rs], /, *, precedence: int = 0, replace: bool = False
    ) -> Rule:
        """The rule that `handler` computes this primitive."""
        return declared(handler, (self.target(),), precedence, replace)

    def bind(self, /, *args: B.args, **params: B.kwargs) -> list[Array]:
        """Apply the primitive; params that JAX allows to be None may be left out."""
        return self._many(args, params)

    def out_aval(self, /, *args: B.args, **params: B.kwargs) -> list[jax.ShapeDtypeStruct]:
        """The shape and dtype of what the primitive would give; nothing is computed."""
        return self._many_aval(args, params)


class HigherOrderOp(MultiVariadicOp[P, V, B]):
    """An op that carries a program, as a jaxpr or a function."""

    __slots__ = ()

    def _bound(self, params: Mapping[str, object]) -> dict[str, object]:
        # A jaxpr records the params of some of these in another form than they are bound in.
        return _jax.bind_params(self.primitive, super()._bound(params))


class UnaryGroup(AnyGroup[UnaryOp[P, ...]], Generic[P]):
    """Ops of one operand, for one handler."""

    __slots__ = ()
    _kind = UnaryOp

    def to(
        self,
        handler: Callable[Concatenate[UnaryOp[P, ...], X, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler`, which is given the op first, computes all of these."""
        return declared(handler, self.targets(), precedence, replace, first=True)

    def __or__(self, other: UnaryOp[P, ...] | UnaryGroup[P], /) -> UnaryGroup[P]:
        return UnaryGroup(None, *self, *members(other))


class BinaryGroup(AnyGroup[BinaryOp[P, ...]], Generic[P]):
    """Ops of two operands, for one handler."""

    __slots__ = ()
    _kind = BinaryOp

    def to(
        self,
        handler: Callable[Concatenate[BinaryOp[P, ...], X, Y, P], R],
        /,
        *,
        precedence: int = 0,
        commutative: bool = False,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler`, which is given the op first, computes all of these."""
        return declared(
            handler, self.targets(), precedence, replace, commutative=commutative, first=True
        )

    def __or__(self, other: BinaryOp[P, ...] | BinaryGroup[P], /) -> BinaryGroup[P]:
        return BinaryGroup(None, *self, *members(other))


class TernaryGroup(AnyGroup[TernaryOp[P, ...]], Generic[P]):
    """Ops of three operands, for one handler."""

    __slots__ = ()
    _kind = TernaryOp

    def to(
        self,
        handler: Callable[Concatenate[TernaryOp[P, ...], X, Y, Z, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler`, which is given the op first, computes all of these."""
        return declared(handler, self.targets(), precedence, replace, first=True)

    def __or__(self, other: TernaryOp[P, ...] | TernaryGroup[P], /) -> TernaryGroup[P]:
        return TernaryGroup(None, *self, *members(other))


class QuaternaryGroup(AnyGroup[QuaternaryOp[P, ...]], Generic[P]):
    """Ops of four operands, for one handler."""

    __slots__ = ()
    _kind = QuaternaryOp

    def to(
        self,
        handler: Callable[Concatenate[QuaternaryOp[P, ...], X, Y, Z, W, P], R],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler`, which is given the op first, computes all of these."""
        return declared(handler, self.targets(), precedence, replace, first=True)

    def __or__(self, other: QuaternaryOp[P, ...] | QuaternaryGroup[P], /) -> QuaternaryGroup[P]:
        return QuaternaryGroup(None, *self, *members(other))


class MultiUnaryGroup(AnyGroup[MultiUnaryOp[P, ...]], Generic[P]):
    """Ops of one operand that give lists, for one handler."""

    __slots__ = ()
    _kind = MultiUnaryOp

    def to(
        self,
        handler: Callable[Concatenate[MultiUnaryOp[P, ...], X, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler`, which is given the op first, computes all of these."""
        return declared(handler, self.targets(), precedence, replace, first=True)

    def __or__(self, other: MultiUnaryOp[P, ...] | MultiUnaryGroup[P], /) -> MultiUnaryGroup[P]:
        return MultiUnaryGroup(None, *self, *members(other))


class MultiBinaryGroup(AnyGroup[MultiBinaryOp[P, ...]], Generic[P]):
    """Ops of two operands that give lists, for one handler."""

    __slots__ = ()
    _kind = MultiBinaryOp

    def to(
        self,
        handler: Callable[Concatenate[MultiBinaryOp[P, ...], X, Y, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler`, which is given the op first, computes all of these."""
        return declared(handler, self.targets(), precedence, replace, first=True)

    def __or__(self, other: MultiBinaryOp[P, ...] | MultiBinaryGroup[P], /) -> MultiBinaryGroup[P]:
        return MultiBinaryGroup(None, *self, *members(other))


class MultiQuaternaryGroup(AnyGroup[MultiQuaternaryOp[P, ...]], Generic[P]):
    """Ops of four operands that give lists, for one handler."""

    __slots__ = ()
    _kind = MultiQuaternaryOp

    def to(
        self,
        handler: Callable[Concatenate[MultiQuaternaryOp[P, ...], X, Y, Z, W, P], Rs],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler`, which is given the op first, computes all of these."""
        return declared(handler, self.targets(), precedence, replace, first=True)

    def __or__(
        self, other: MultiQuaternaryOp[P, ...] | MultiQuaternaryGroup[P], /
    ) -> MultiQuaternaryGroup[P]:
        return MultiQuaternaryGroup(None, *self, *members(other))


class MixedGroup(AnyGroup[AnyOp]):
    """Ops of different numbers of operands and different params, for one handler."""

    __slots__ = ()

    def to(
        self,
        handler: Callable[Concatenate[AnyOp, ...], AnyR],
        /,
        *,
        precedence: int = 0,
        replace: bool = False,
    ) -> Rule:
        """The rule that `handler(op, *operands, **params)` computes all of these."""
        return declared(handler, self.targets(), precedence, replace, first=True)

    def __or__(self, other: AnyOp | AnyGroup[AnyOp], /) -> MixedGroup:
        return MixedGroup(None, *self, *members(other))
