"""`primitive_handler`: the decorator that declares a handler at once, under the name it has."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import NotImplementedType
from typing import Concatenate, TypeAlias, TypeVar

from jax import Array

from typedqax import _jax, ops
from typedqax._collecting import kept
from typedqax._declined import Declined
from typedqax._domains import COMMUTATIVE
from typedqax._errors import Problem, SignatureError
from typedqax._handler import Handler
from typedqax._installed import install_rule
from typedqax._jax import Primitive
from typedqax._origin import Place
from typedqax._rule import Rule, Target

One: TypeAlias = str | Primitive | ops.AnyOp | ops.AnyGroup[ops.AnyOp]
Result: TypeAlias = Array | Sequence[Array] | Declined | NotImplementedType
F = TypeVar("F", bound=Callable[Concatenate[Primitive, ...], Result])


@_jax.api_boundary
def primitive_handler(primitive: One | Sequence[One], precedence: int = 0) -> Callable[[F], F]:
    """Declare the decorated function a handler of `primitive`, at once.

    It goes into the process-wide table, or into the enclosing `declaring()` block, and is called
    as `function(primitive, *operands, **params)` with JAX's own primitive. For a commutative
    primitive it stands for both orders of its two operands, called with them in the order that it
    annotates; a class in its signature that says `commute_ops=False` turns that off.

    Args:
        primitive: a name, as in `jax.lax.<name>_p` or as in a jaxpr; a primitive of JAX; an op or a
            group of ops; or several of these.
        precedence: the higher wins, before any comparison of signatures.

    Raises:
        SignatureError: when decorating, if the function cannot be a handler of `primitive`.
        AmbiguityError, DuplicateHandlerError: it does not go together with what is installed.

    Example:
        >>> import jax, jax.numpy as jnp, typedqax as tq
        >>> class Twice(tq.ImplicitArray):
        ...     half: jax.Array
        ...     def materialize(self) -> jax.Array:
        ...         return 2 * self.half
        >>> @tq.primitive_handler("neg")
        ... def negate(primitive, x: Twice):
        ...     return Twice(-x.half)
        >>> tq.use_implicit_args(jnp.negative)(Twice(jnp.ones(3)))
        Twice f32[3](half=f32[3])
    """
    _refuse_function(primitive)

    @_jax.api_boundary
    def declare(function: F) -> F:
        try:
            handler, targets = _read(function, primitive)
        except SignatureError as error:
            if not kept(error):
                raise
            return function
        both = [t for t in targets if t.name in COMMUTATIVE] if _commutes(handler) else []
        one = [target for target in targets if target not in both]
        rules = [
            Rule.declare(
                function,
                chosen,
                precedence=precedence,
                commutative=commutative,
                takes_first=True,
            )
            for chosen, commutative in ((both, True), (one, False))
            if chosen
        ]
        install_rule(*rules)
        return function

    return declare


def _refuse_function(primitive: object) -> None:
    """Refuse `@primitive_handler` without parentheses, which is given the function itself."""
    if inspect.isfunction(primitive):
        place = Place.of(primitive)
        told = 'the decorator is told what it is for: @primitive_handler("mul")'
        raise SignatureError(primitive.__name__, str(place), [Problem("unknown-primitive", told)])


def _read(function: object, primitive: One | Sequence[One]) -> tuple[Handler, list[Target]]:
    """The handler that `function` is, and what it is for.

    Raises:
        SignatureError: it cannot be read, or `primitive` names what is none.
    """
    handler = Handler.of(function, takes_first=True)
    targets, problems = _targets(primitive)
    if problems:
        raise SignatureError(handler.name, str(handler.place), problems)
    return handler, targets


def _commutes(handler: Handler) -> bool:
    """Whether the handler, of a commutative primitive, is meant for both orders."""
    signature = handler.signature
    return (
        not signature.variadic
        and signature.fixed_arity == 2
        and signature.accepts_arity(2)
        and not signature.accepts_arity(1)
        and all(getattr(cls, "_commute_ops", True) for cls in signature.classes)
    )


def _targets(wanted: One | Sequence[One]) -> tuple[list[Target], list[Problem]]:
    """What the rule is for, each once, and why some of it cannot be."""
    targets: dict[str, Target] = {}
    problems: list[Problem] = []
    for part in _parts(wanted):
        if part is ops.any_primitive:
            found = [Target("*", _itself)]
        elif isinstance(part, ops.AnyOp):
            found = [part.target(part.primitive)]
        elif isinstance(part, Primitive):
            found = [ops.of_primitive(part).target(part)]
        elif isinstance(part, str):
            op = ops.find(part)
            found = [] if op is None else [op.target(op.primitive)]
            if op is None:
                problems.append(_unknown(part))
        else:
            found = []
            text = f"{part!r} is no primitive: give a name, a primitive of JAX, an op, or several"
            problems.append(Problem("unknown-primitive", text))
        targets |= {target.name: target for target in found}
    if not targets and not problems:
        text = "no primitive is given that it would be for"
        problems.append(Problem("unknown-primitive", text))
    return list(targets.values()), problems


def _parts(wanted: object) -> Iterator[object]:
    """The single things in `wanted`; a group as its members, but for the one of every op."""
    if wanted is ops.any_primitive or isinstance(wanted, str):
        yield wanted
    elif isinstance(wanted, (list, tuple, set, frozenset, ops.AnyGroup)):
        for part in wanted:
            yield from _parts(part)
    else:
        yield wanted


def _itself(primitive: Primitive) -> Primitive:
    """What a handler of any primitive is given: the one that was met."""
    return primitive


def _unknown(name: str) -> Problem:
    names = [op.attribute for op in ops.listed()]
    near = difflib.get_close_matches(name.removesuffix("_p"), names, n=3)
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return Problem("unknown-primitive", f"JAX has no primitive {name!r}{hint}")
