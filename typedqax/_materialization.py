"""Materialization: when an implicit array becomes dense, the policy, and what is said of it."""

from __future__ import annotations

import difflib
import itertools
import operator
import threading
import warnings
import weakref
from collections.abc import Iterable, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol, TypeAlias, get_args

import jax

from typedqax import _jax
from typedqax._argument import Argument
from typedqax._aval import aval_of, describe
from typedqax._errors import (
    MaterializationError,
    MaterializationWarning,
    UsageError,
    clipped,
    shown_argument,
)
from typedqax._installed import installed_now
from typedqax._layout import human_bytes
from typedqax._origin import Place
from typedqax._primitives import PRIMITIVES
from typedqax._reason import Reason
from typedqax._signature import Operand
from typedqax._table import live_tables
from typedqax._value import ImplicitValue, implicit_classes

STAGED: Final = "what JAX staged under use_implicit_args"

ASKERS: Final = frozenset(
    {
        "a derivative",
        STAGED,
        "an inner function",
        "bool",
        "complex",
        "float",
        "format",
        "index",
        "int",
        "item",
        "numpy.asarray",
        "tolist",
    }
)
"""What asks for the numbers of an implicit array without applying a primitive to it."""

_MOST_OPERANDS: Final = 8

Policy: TypeAlias = Literal["warn", "allow", "error"]


class HasName(Protocol):
    """A primitive, or an op that stands for one."""

    @property
    def name(self) -> str:
        """The name of the primitive."""
        ...


@dataclass(frozen=True, slots=True)
class Materialization:
    """One implicit array that became dense, or would have.

    Attributes:
        cls: the class of the implicit array.
        operand: its class, dtype and shape.
        nbytes: the size of the dense array in bytes; None where a size is symbolic.
        primitive: what it was made dense for.
        operands: all operands of that primitive.
        reasons: why nothing better could be done, one sentence each.
        source: where the primitive was applied.
        argument: the argument that the array is, or was computed from; None where that is not
            known.
        remedy: what to do where no handler of the primitive could do better, a clause.
        transposed: in the backward pass of a derivative, the primitive that was being transposed;
            None elsewhere, and where JAX does not tell.
        scopes: the parts of the program that it is in; None: those that `source` tells.
        forbidden: in a record, whether the policy in force forbids it.
    """

    cls: type[ImplicitValue]
    operand: Operand
    nbytes: int | None
    primitive: str
    operands: tuple[Operand, ...]
    reasons: tuple[str, ...]
    source: _jax.SourceInfo
    argument: Argument | None = None
    remedy: str = ""
    transposed: str | None = None
    scopes: tuple[str, ...] | None = None
    forbidden: bool = False

    @classmethod
    def of(
        cls,
        value: ImplicitValue,
        primitive: str,
        reasons: Sequence[str],
        *,
        source: _jax.SourceInfo,
        operands: tuple[Operand, ...] | None = None,
        argument: Argument | None = None,
        remedy: str = "",
    ) -> Materialization:
        """That `value` becomes dense for `primitive`; without `operands`, it is the only one."""
        operand = describe(value)
        return cls(
            type(value),
            operand,
            dense_bytes(value),
            primitive,
            (operand,) if operands is None else operands,
            tuple(reasons),
            source,
            argument,
            remedy,
            _jax.transposed_primitive(source) if _jax.in_transpose(source) else None,
        )

    def within(
        self, source: _jax.SourceInfo, operands: Sequence[Argument | None]
    ) -> Materialization:
        """The same, at `source`, in an inner function that was called with these arguments."""
        argument = self.argument and self.argument.within(operands)
        return replace(self, source=source, argument=argument)

    @property
    def call(self) -> str:
        """The primitive with its operands, the first few if there are many."""
        shown = [str(operand) for operand in self.operands]
        if len(shown) > _MOST_OPERANDS:
            shown[_MOST_OPERANDS - 1 :] = [f"and {len(shown) - _MOST_OPERANDS + 1} more"]
        return f"{self.primitive}({', '.join(shown)})"

    @property
    def where(self) -> Reason:
        """The place, as the end of a sentence; empty where no line of the user's is known."""
        frame = _jax.user_frame(self.source)
        backward = _jax.in_transpose(self.source)
        of = f" from the transpose of {self.transposed}" if backward and self.transposed else ""
        if backward and not of:
            of = " in the backward pass"
        place = () if frame is None else (" at ", Place(frame.file, frame.line))
        scope = _jax.name_scope(self.source)
        return Reason(of, *place, f" (in {scope})" if scope else "")

    @property
    def told(self) -> Reason:
        """What happened, and where."""
        size = "" if self.nbytes is None else f" ({human_bytes(self.nbytes)})"
        argument = ""
        if self.argument is not None and self.argument.name is not None:
            verb = "comes from" if self.argument.through else "is"
            argument = f"; it {verb} the argument {self.argument}"
        return Reason(f"{self.operand} became dense{size} for {self.call}", self.where, argument)

    def __str__(self) -> str:
        return str(self.told)


# --- policy --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """What one block says.

    Attributes:
        policy: what happens in it when something becomes dense.
        classes: the classes that it is about; all, if none.
        allow: the names of primitives that it is not about.
        larger_than: it is about dense arrays of more bytes than this.
    """

    policy: Policy
    classes: tuple[type, ...]
    allow: frozenset[str]
    larger_than: int

    def key(self) -> object:
        """The same for the same block, without keeping a class alive."""
        refs = tuple([weakref.ref(cls) for cls in self.classes])
        return self.policy, refs, self.allow, self.larger_than

    def applies(self, cls: type, primitive: str, nbytes: int | None) -> bool:
        if self.classes and not issubclass(cls, self.classes):
            return False
        if primitive in self.allow:
            return False
        return nbytes is None or nbytes > self.larger_than

    def decides_refusal(self) -> bool:
        """Whether something is refused with this block that is not without, or the other way."""
        if self.policy == "error":
            return True
        return bool(self.classes) and any(
            issubclass(cls, self.classes) and own_policy(cls) == "error"
            for cls in implicit_classes()
        )


class _InForce(threading.local):
    """The blocks that a thread is in, the innermost last; JAX keeps its caches' key by thread."""

    blocks: tuple[_Block, ...] = ()


_in_force = _InForce()


class materialization(ContextDecorator):  # noqa: N801  # used as a verb: with materialization(...)
    """A block, or a function, in which implicit arrays may, may not or had better not become dense.

    `"warn"` says so with a `MaterializationWarning`, `"allow"` is silent, `"error"` raises a
    `MaterializationError` while the function is traced. The innermost block that applies decides.
    Without `with`, and not used as a decorator, it does nothing: `python -m typedqax check` finds
    such a line. Threads have blocks of their own; as with JAX's own contexts, what else the thread
    does while a coroutine awaits, or a generator rests, inside a block is in the block too.
    A class that was defined with `materialization="error"`, because its dense form loses meaning,
    becomes dense only in a block that names it.

    What JAX compiled before is not used where an `"error"` is in force; nor, after a block that let
    a class become dense which must not, what it compiled in that. It is traced anew, once, so that
    nothing passes unseen.

    Args:
        policy: `"warn"`, `"allow"` or `"error"`.
        classes: the block is about these classes and their subclasses only.
        allow: primitives that the block is not about: their names, ops, or primitives themselves.
        larger_than: the block is about dense arrays of more bytes than this.

    Raises:
        UsageError: `policy` is none of the three, or JAX has no such primitive.

    Example:
        >>> import typedqax as tq
        >>> with tq.materialization("error"):
        ...     pass
    """

    @_jax.api_boundary
    def __init__(
        self,
        policy: Policy,
        /,
        *classes: type,
        allow: Iterable[str | HasName] = (),
        larger_than: int = -1,
    ) -> None:
        first: object = policy
        if not (isinstance(first, str) and first in get_args(Policy)):
            raise UsageError(
                f"materialization({shown_argument(policy)}): the policy comes first, and is one of "
                f"{', '.join(map(repr, get_args(Policy)))}."
            )
        for cls in classes:
            named: object = cls
            if not (isinstance(named, type) and issubclass(named, ImplicitValue)):
                raise UsageError(
                    f"materialization({policy!r}, {shown_argument(named)}): what follows the "
                    f"policy are subclasses of ImplicitArray."
                )
        size: object = larger_than
        if isinstance(size, bool) or not isinstance(size, (int, float)):
            raise UsageError(
                f"materialization(..., larger_than={shown_argument(size)}): give a number of "
                f"bytes, as in larger_than=1 << 20."
            )
        self._block = _Block(policy, classes, primitives_named(allow), larger_than)

    def __enter__(self) -> None:
        _put_in_force((*_in_force.blocks, self._block))

    def __exit__(self, *exc_info: object) -> None:
        # Nothing is kept in the object: it is one for all calls of a function that it decorates,
        # and those may overlap, in threads.
        blocks = _in_force.blocks
        last = max((i for i, block in enumerate(blocks) if block is self._block), default=None)
        if last is None:
            raise UsageError(
                f"materialization({self._block.policy!r}): this block ends in another thread than "
                f"it began in, where it stays in force. A generator that rests inside such a block "
                f"has to be closed by the thread that started it."
            )
        _put_in_force(blocks[:last] + blocks[last + 1 :])


def primitives_named(allow: object) -> frozenset[str]:
    """The names of primitives, or of what stands for one.

    Raises:
        UsageError: it is none, or no primitive of this name is known.
    """
    if isinstance(allow, str) or not isinstance(allow, Iterable):
        single = allow if isinstance(allow, str) else getattr(allow, "name", allow)
        raise UsageError(
            f"allow={shown_argument(allow)}: pass a set of names of primitives, "
            f"{{{shown_argument(single)}}}."
        )
    names: set[str] = set()
    written: list[str] = []
    for each in allow:
        name = each if isinstance(each, str) else getattr(each, "name", None)
        if not isinstance(name, str):
            raise UsageError(
                f"allow={{{shown_argument(each)}, ...}}: primitives are given by their names, or "
                f"as ops, or themselves."
            )
        names.add(name)
        if isinstance(each, str):
            written.append(name)
    if written:
        _refuse_unknown(written)
    return frozenset(names)


_known_names: set[str] = set()
"""Names that were found to be primitives': looking for them takes longer than a block may cost.

No more than there are primitives.
"""


def _refuse_unknown(names: Sequence[str]) -> None:
    if _known_names.issuperset(names):
        return
    tables = [table.rankings for table in live_tables()]
    handled = {name for rankings in (*tables, installed_now().rankings) for name in rankings}
    known = {*_jax.primitive_names(), *handled, *ASKERS} - {each.name for each in PRIMITIVES}
    for name in names:
        if name not in known and not _is_function_of_jax(name):
            near = difflib.get_close_matches(name, sorted(known), n=3)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise UsageError(
                f"allow={{{name!r}}}: there is no primitive of that name{hint or '.'} (One that "
                f"JAX does not know by its name is given itself.)"
            )
        _known_names.add(name)


def _is_function_of_jax(name: str) -> bool:
    """Whether this is one that may need numbers, as reports name it: `jax.vmap`, say."""
    first, _, rest = name.partition(".")
    try:
        return first == "jax" and callable(operator.attrgetter(rest)(jax))
    except AttributeError:
        return False


def _put_in_force(blocks: tuple[_Block, ...]) -> None:
    _in_force.blocks = blocks
    # What was compiled without a word under one policy might have had to be refused under another.
    # To say or not to say is no reason to compile again.
    deciding = any(block.decides_refusal() for block in blocks)
    _jax.swap_policy(_number_of(tuple([block.key() for block in blocks])) if deciding else None)


def class_was_defined() -> None:
    """Ask anew what the blocks in force decide, now that there is one more class."""
    _put_in_force(_in_force.blocks)


_numbers: dict[object, int] = {}
_next_number = itertools.count(1)
_MOST_NUMBERS: Final = 1024
"""So many policies are told apart; after that all begin anew, with other numbers."""


def _number_of(key: object) -> int:
    """A number for each key: JAX hashes it whenever it looks into a cache."""
    if len(_numbers) >= _MOST_NUMBERS:  # of classes that are gone, say, or of sizes in a loop
        _numbers.clear()
    return _numbers.setdefault(key, next(_next_number))


def policy_key() -> object:
    """What a cache of traced programs must remember of the policies in force."""
    return _in_force.blocks


def own_policy(cls: type) -> Policy:
    """What the class keyword `materialization=` of `cls` says."""
    policy: Policy = getattr(cls, "_materialization_policy", "warn")
    return policy


def policy_for(cls: type, primitive: str, nbytes: int | None) -> Policy:
    """What is to happen when an instance of `cls` becomes dense for `primitive`."""
    own = own_policy(cls)
    for block in reversed(_in_force.blocks):
        if block.applies(cls, primitive, nbytes):
            if block.classes or block.policy == "error":
                return block.policy
            if own == "error":
                return own
            return block.policy if own == "warn" else own
    return own


def judged(event: Materialization) -> Materialization:
    """`event` with what the policy in force says of it, for a record."""
    return replace(event, forbidden=is_forbidden(event))


def is_forbidden(event: Materialization) -> bool:
    """Whether the policy in force forbids what `event` tells."""
    return policy_for(event.cls, event.primitive, event.nbytes) == "error"


def loses_meaning(value: ImplicitValue, primitive: str) -> bool:
    """Whether the class of `value` must not become dense, and nothing in force lets it here."""
    cls = type(value)
    if own_policy(cls) != "error":
        return False
    return policy_for(cls, primitive, dense_bytes(value)) == "error"


# --- saying so -----------------------------------------------------------------------------------

_registry: dict[str | tuple[str, type[Warning], int], int] = {}
"""What Python's own filters have shown: the `__warningregistry__` of all our warnings."""


class InnerRefusal(MaterializationError):
    """That something would have become dense in an inner function, before its place is known.

    Attributes:
        event: it; whoever called the function can say where.
    """

    def __init__(self, event: Materialization) -> None:
        super().__init__(str(event))
        self.event = event


def report(event: Materialization) -> None:
    """Say that an implicit array becomes dense, as the policy in force wants it.

    Raises:
        MaterializationError: the policy forbids it.
    """
    policy = policy_for(event.cls, event.primitive, event.nbytes)
    if policy == "allow":
        return
    if policy == "error":
        raise refusal(event)
    text = _text(event, own_error=own_policy(event.cls) == "error", forbidden=False)
    warn_at(_jax.user_frame(event.source), text, MaterializationWarning)


def refusal(event: Materialization) -> MaterializationError:
    """The error that `event` is forbidden."""
    own_error = own_policy(event.cls) == "error"
    return MaterializationError(_text(event, own_error=own_error, forbidden=True))


def warn_at(frame: _jax.Frame | None, text: str, category: type[Warning]) -> None:
    """Warn at a line of the user's, as far as one is known."""
    warnings.warn_explicit(
        text,
        category,
        filename="<unknown>" if frame is None else frame.file,
        lineno=0 if frame is None else frame.line,
        registry=_registry,
    )


def _text(event: Materialization, *, own_error: bool, forbidden: bool) -> str:
    name, op = event.cls.__name__, event.primitive
    lines = [str(event) + "."]
    if forbidden:
        lines[0] = lines[0].replace(" became dense", " would have become dense", 1)
    lines += [f"  - {reason}" for reason in event.reasons] or [
        f"  - no handler takes these operands of `{op}`"
    ]
    meant = "call tq.materialize(...) where dense is meant"
    better = event.remedy
    if op in ASKERS or op.startswith(
        "jax."
    ):  # those are no primitives, and no handler can take them
        meant = "call tq.materialize(...) first, where dense is meant"
    elif not better:
        handler = f"ops.{op}.to(...)" if op.isidentifier() else f'primitive_handler("{op}")'
        better = f"write a handler with {handler}"
    if own_error:
        lines.append(
            f'{name} is defined with materialization="error", since its dense form loses meaning: '
            f"{f'{better}, or ' if better else ''}{meant}."
        )
    elif forbidden:
        lines.append(
            f'This is inside materialization("error"): {better or meant}, or let it pass with '
            f'materialization("allow", {name}) or allow={{{op!r}}}.'
        )
    else:
        lines.append(
            f"The numbers are the same. To avoid it, {better or meant}; to silence it, use "
            f'tq.materialization("allow") or the class keyword materialization="allow"; to forbid '
            f'it, tq.materialization("error").'
        )
    return clipped("\n".join(lines))


def dense_bytes(value: ImplicitValue) -> int | None:
    """The bytes of the dense array that `value` stands for; None where a size is symbolic."""
    aval = aval_of(value)
    count = int(aval.dtype.itemsize)
    for size in aval.shape:
        if not isinstance(size, int):
            return None
        count *= size
    return count
