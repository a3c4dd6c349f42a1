"""A rule: a handler, the primitives it is for, and how it stands to other rules."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

from typedqax._collecting import kept
from typedqax._domains import COMMUTATIVE, Calls, primitive_domain
from typedqax._errors import Problem, SignatureError
from typedqax._handler import Handler
from typedqax._signature import Signature

# Params that decide which numbers come out. A handler that ignores one of these by `**_` is
# right for some calls and silently wrong for others. What only says how or where to compute
# (precision, accuracy, sharding, indices_are_sorted, ...) is not among them, and neither is what
# the comparison with the primitive's own result would notice (index_dtype, out_dtype).
DECIDING_PARAMS = frozenset(
    """
    all_gather_dimension axes axis axis_index_groups axis_name base_dilation batch_group_count
    body_jaxpr branches broadcast_dimensions call_jaxpr compute_uv concat_axis cond_jaxpr
    conjugate_a dimension dimension_numbers dimensions exponent_bits feature_group_count
    fft_lengths fft_type fill_value full_matrices jaxpr jaxprs k left left_side lhs_dilation
    limit_indices log_space lower mantissa_bits mode new_dtype new_sizes num_keys padding
    padding_config perm permutation permutation_size pivoting ragged_dot_dimension_numbers
    reduction_dimension reps reverse rhs_dilation rounding_method scatter_dimension select_prim
    shape sizes slice_sizes sort_eigenvalues split_axis start_indices strides subset_by_index tiled
    transpose_a unit_diagonal update_jaxpr window_dilation window_dimensions window_strides y
    """.split()  # noqa: SIM905  # a list of names, not of strings
)


@dataclass(frozen=True, slots=True)
class Target:
    """One primitive that a rule is for.

    Attributes:
        name: the primitive's own name (`prim.name`); `"*"` for what runs before materialization.
        first: what the handler is given ahead of its operands (an op or a primitive), or None.
        params: the names of the primitive's params on this JAX; None: not known.
        arity: how many operands it takes; None: it varies.
        multiple_results: whether it returns a list.
    """

    name: str
    first: object | None = None
    params: tuple[str, ...] | None = None
    arity: int | None = None
    multiple_results: bool = False

    @property
    def attribute(self) -> str:
        """How it is written as an attribute of `ops`."""
        if self.name == "*":
            return "any_primitive"
        name = self.name.replace("-", "_")
        return f"{name}_" if keyword.iskeyword(name) else name


@final
class Rule:
    """A handler, the primitives it is for, and how it stands to others; never changed.

    Attributes:
        handler: the function.
        targets: the primitives.
        precedence: the higher wins, before any comparison of signatures.
        commutative: whether it stands for both orders of two operands.
        replace: whether it takes the place of a rule for exactly the same operands.
        signature: the operands it takes, in either order if it is commutative.
        looks: what of each operand it looks at besides the class; the last is that of all further
            ones.
        entries: one for each target.
    """

    __slots__ = (
        "__weakref__",
        "commutative",
        "entries",
        "handler",
        "looks",
        "precedence",
        "replace",
        "signature",
        "targets",
    )

    def __init__(
        self,
        handler: Handler,
        targets: tuple[Target, ...],
        precedence: int = 0,
        *,
        commutative: bool = False,
        replace: bool = False,
    ) -> None:
        self.handler: Handler = handler
        self.targets: tuple[Target, ...] = targets
        self.precedence: int = precedence
        self.commutative: bool = commutative
        self.replace: bool = replace
        signature = handler.signature
        self.signature: Signature = signature.commutative() if commutative else signature
        self.looks: tuple[frozenset[str], ...] = tuple(
            self.signature.looks_at(place) for place in range(self.signature.fixed_arity + 1)
        )
        self.entries: tuple[Entry, ...] = tuple(
            Entry(self, target, primitive_domain(target.name, target.arity)) for target in targets
        )

    def __repr__(self) -> str:
        names = " | ".join(target.attribute for target in self.targets)
        return f"<Rule {self.handler.facts()} for {names}>"

    @classmethod
    def declare(
        cls,
        function: object,
        targets: Iterable[Target],
        *,
        precedence: int = 0,
        commutative: bool = False,
        replace: bool = False,
        takes_first: bool = False,
    ) -> Rule:
        """The rule that `function` computes `targets`.

        Raises:
            SignatureError: no call could ever reach the function, or it cannot be read.
        """
        try:
            return cls._declared(
                Handler.of(function, takes_first=takes_first),
                tuple(targets),
                precedence,
                commutative=commutative,
                replace=replace,
            )
        except SignatureError as error:
            if not kept(error):
                raise
            return cls(Handler.of(_refused, takes_first=False), ())

    @classmethod
    def _declared(
        cls,
        handler: Handler,
        chosen: tuple[Target, ...],
        precedence: int,
        *,
        commutative: bool,
        replace: bool,
    ) -> Rule:
        """The rule of these parts, after asking whether it can be one."""
        problems = [
            *_arity_problems(handler, chosen),
            *_param_problems(handler, chosen),
            *_order_problems(handler, chosen, commutative=commutative),
            *_result_problems(handler, chosen),
            *_precedence_problems(precedence),
        ]
        if problems:
            raise SignatureError(handler.name, str(handler.place), problems)
        rule = cls(handler, chosen, precedence, commutative=commutative, replace=replace)
        unreachable = _reach_problem(rule)
        if unreachable is not None:
            raise SignatureError(handler.name, str(handler.place), [unreachable])
        return rule


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A rule as it stands under one of its primitives.

    Attributes:
        rule: the rule.
        target: the primitive.
        calls: those calls of the primitive that can occur.
    """

    rule: Rule
    target: Target
    calls: Calls

    def __repr__(self) -> str:
        return f"<Entry {self.handler.facts()} for {self.target.attribute}>"

    @property
    def handler(self) -> Handler:
        """The rule's handler."""
        return self.rule.handler

    @property
    def signature(self) -> Signature:
        """The operands that it takes, in either order if the rule is commutative."""
        return self.rule.signature

    @property
    def precedence(self) -> int:
        """The rule's precedence."""
        return self.rule.precedence


def _refused(*operands: Any) -> Any:
    """What a collected refusal leaves in place of the handler; it is for no primitive."""
    raise NotImplementedError(operands)


def _arity_problems(handler: Handler, targets: tuple[Target, ...]) -> list[Problem]:
    """Targets whose number of operands the handler does not take."""
    fewest, most = handler.arities
    takes = _count(fewest, most)
    problems: list[Problem] = []
    for target in targets:
        arity = target.arity
        if arity is None or (fewest <= arity and (most is None or arity <= most)):
            continue
        text = f"it takes {takes}, but `{target.name}` has {arity}"
        misplaced = [name for name in handler.operands if name in (target.params or ())]
        if misplaced:
            names = ", ".join(f"`{name}`" for name in misplaced)
            text += f"; params come after a `*`: {names}"
        problems.append(Problem("arity", text))
    arities = [target.arity for target in targets if target.arity is not None]
    if not problems and most is not None and arities and len(arities) == len(targets):
        problems += [
            Problem(
                "arity",
                f"its operand `{name}` has a default, but is never given: "
                f"`{targets[0].name}` has {max(arities)} operands",
            )
            for name in handler.operands[max(arities) : most]
        ]
    return problems


def _precedence_problems(precedence: object) -> list[Problem]:
    if isinstance(precedence, int):
        return []
    text = f"precedence={precedence!r}: it is a whole number, the higher wins"
    return [Problem("precedence", text)]


def _count(fewest: int, most: int | None) -> str:
    number = (
        f"{fewest} or more"
        if most is None
        else str(fewest)
        if fewest == most
        else f"{fewest} to {most}"
    )
    return f"{number} operand{'' if number == '1' else 's'}"


def _param_problems(handler: Handler, targets: tuple[Target, ...]) -> list[Problem]:
    """Params that the handler may not ask for, may not ignore, or cannot be given."""
    problems = []
    params = handler.params
    for target in targets:
        if target.params is None:
            continue
        have = frozenset(target.params)
        for name in sorted(params.required - have):
            shown = ", ".join(sorted(have)) or "none"
            text = (
                f"`{target.name}` has no param `{name}` on this JAX (it has: {shown}); "
                "misspelt, or give it a default"
            )
            problems.append(Problem("unknown-param", text))
        if params.rest == "ignored":
            ignored = sorted((have - params.named) & DECIDING_PARAMS)
            if ignored:
                names = ", ".join(f"`{name}`" for name in ignored)
                text = (
                    f"it ignores {names} of `{target.name}`, which decides the numbers that come "
                    "out: name it as a keyword, or take **params and pass them on"
                )
                problems.append(Problem("ignored-param", text))
        given = have if params.rest != "declined" else have & params.named
        problems += [
            Problem(
                "operand-name",
                f"its operand `{name}` has the name of a param of `{target.name}`: "
                f"put a `/` after the operands",
            )
            for name in sorted(given & handler.by_keyword)
        ]
    return list(dict.fromkeys(problems))


def _order_problems(
    handler: Handler, targets: tuple[Target, ...], *, commutative: bool
) -> list[Problem]:
    """Why the handler cannot stand for both orders of its operands."""
    if not commutative:
        return []
    wrong = [target.name for target in targets if target.name not in COMMUTATIVE]
    if wrong:
        known = ", ".join(sorted(COMMUTATIVE))
        text = f"commutative=True is for {known}; the operands of `{wrong[0]}` have an order"
        return [Problem("commutative", text)]
    fewest, most = handler.arities
    if fewest == most == 2:
        return []
    return [Problem("commutative", "commutative=True is for a handler of two operands")]


def _result_problems(handler: Handler, targets: tuple[Target, ...]) -> list[Problem]:
    """A result of a kind that none of the primitives has: several arrays, or one."""
    result = handler.result
    known = [target for target in targets if target.name != "*"]
    says_nothing = not result.items and not result.repeated
    if says_nothing or not known or len(known) < len(targets):
        return []
    if any(target.multiple_results is not result.single for target in known):
        return []
    names = named(known)
    if result.single:
        text = f"it gives one array, {result.text}; {names} has several results: give a tuple"
    else:
        text = f"it gives several arrays, {result.text}; {names} has one result"
    return [Problem("result", text)]


def named(targets: Sequence[Target]) -> str:
    """The primitives that a rule is for, as texts list them."""
    names = [f"`{target.name}`" for target in targets]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _reach_problem(rule: Rule) -> Problem | None:
    """Why no call can ever reach the rule's handler, under any of its primitives."""
    different = {id(entry.calls): entry.calls for entry in rule.entries}
    if any(calls.reaching(rule.signature) is not None for calls in different.values()):
        return None
    shown = rule.signature.render()
    return Problem(
        "unreachable",
        f"no call of {named(rule.targets)} can reach it: ({shown}) admits no operands, one of "
        "them implicit at least, that the primitive would accept. `Array` is dense only; write an "
        "implicit class, `ImplicitArray` (any implicit) or `ArrayValue` (both)",
    )
