"""Findings about single rules: params and results with which a handler declines its calls."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from inspect import isabstract

import jax
import numpy as np

from typedqax import ops
from typedqax._aval import describe
from typedqax._contracts import in_terms_of, materialize_result
from typedqax._errors import ContractError
from typedqax._fields import read_fields
from typedqax._findings import Finding, Severity
from typedqax._handler import Handler
from typedqax._mismatch import mismatch
from typedqax._rule import Entry, Rule, named
from typedqax._signature import ArrayPattern, Dense, Form, Parameter, Signature
from typedqax._value import ImplicitValue, implicit_classes
from typedqax._written import gives_nothing, returned


def rule_findings(rule: Rule) -> Iterator[Finding]:
    """What is wrong with a rule, whatever others there are."""
    if rule.handler.params.rest == "declined":
        always = list(_of_missing_params(rule))
        yield from always or _of_params(rule)
    yield from _of_operands(rule)
    yield from _of_declines(rule.handler)
    yield from _of_result(rule)


def _at(handler: Handler, line: int, code: str, text: str, severity: Severity = "error") -> Finding:
    packages = frozenset({handler.origin.package})
    return Finding(handler.place.file, line, code, text, severity, packages)


def _of_missing_params(rule: Rule) -> Iterator[Finding]:
    """Params without which there is no call, and with which the handler declines."""
    handler = rule.handler
    for target in rule.targets:
        op = ops.find(target.name)
        for name in sorted((op.required if op else frozenset()) - handler.params.named):
            text = (
                f"`{handler.name}` declines every call of `{target.name}`, which always has the "
                f"param `{name}`: name it, or take **params"
            )
            yield _at(handler, handler.place.line, "always-declines", text)


def _of_params(rule: Rule) -> Iterator[Finding]:
    """Params that make the handler decline, of those that JAX itself gives."""
    handler = rule.handler
    declined = sorted(
        {
            name
            for target in rule.targets
            for name in target.params or ()
            if name not in handler.params.named and not _is_always_none(target.name, name)
        }
    )
    if declined:
        names = ", ".join(f"`{name}`" for name in declined)
        them = f"{names} is" if len(declined) == 1 else f"one of {names} is"
        text = (
            f"`{handler.name}` declines every call of {named(rule.targets)} in which {them} not "
            "None; name it, or take **params"
        )
        yield _at(handler, handler.place.line, "declined-param", text, "note")


def _of_operands(rule: Rule) -> Iterator[Finding]:
    """An operand that no array of its class can be, by what their `materialize` is annotated."""
    handler = rule.handler
    never = [_never(form) for entry in rule.entries for form in entry.signature.forms]
    if never and all(never):
        text = f"`{handler.name}` never runs: {never[0]}"
        yield _at(handler, handler.place.line, "unreachable", text)


def _never(form: Form) -> str:
    """Why no call has such operands; empty where one may."""
    for parameter in form.parameters:
        if parameter.required:
            reasons = [_contradicts(each) for each in parameter.alternatives]
            if all(reasons):
                return f"`{parameter}` takes {reasons[0]}"
    return ""


def _contradicts(wanted: ArrayPattern) -> str:
    """What `wanted` takes, and the `materialize` of its classes never gives; empty if it may."""
    reasons = []
    for cls in implicit_classes():
        if wanted.classes.isdisjoint(cls.__mro__) or isabstract(cls):
            continue
        reason = never_of(cls, wanted)
        if not reason:
            return ""
        reasons.append(reason)
    return reasons[0] if reasons and Dense not in wanted.classes else ""


def never_of(cls: type[ImplicitValue], wanted: ArrayPattern) -> str:
    """What `wanted` takes, and the `materialize` of `cls` never gives; empty if it may."""
    try:
        ranks = [layout.rank for layout in read_fields(cls)[0].values()]
        result = materialize_result(cls)
    except (ContractError, TypeError, ValueError):  # dataclasses refuse its fields: told of those
        return ""
    # Where fields name no axes, an array may have less of them than its dense one should.
    if not ranks or None in ranks or result is None or not result.items:
        return ""
    given = result.items[0]
    name = f"`{cls.__qualname__}.materialize`"
    if not any(wanted.dtypes & each.dtypes for each in given):
        return f"another dtype than {name} gives ({result.text})"
    if wanted.dims.section is None and all(wanted.dims.fixed < each.dims.fixed for each in given):
        return f"fewer axes than {name} gives ({result.text})"
    return ""


@cache
def _recorded() -> Mapping[str, Mapping[str, list[str]]]:
    """By primitive, the types that the values of its params had wherever JAX was traced."""
    corpus = json.loads(files(ops).joinpath("_corpus.json").read_text(encoding="utf-8"))
    return {name: seen["params"] for name, seen in corpus["primitives"].items()}


def _is_always_none(primitive: str, param: str) -> bool:
    """Whether JAX's own functions leave this param None, so that only a user gives it a value."""
    return _recorded().get(primitive, {}).get(param) == ["None"]


def _of_result(rule: Rule) -> Iterator[Finding]:
    """A result that is annotated otherwise than the primitive's own rule has it.

    Asked of one call that the handler takes, of primitives that need no params. A handler that may
    decline may be declining that one.
    """
    handler = rule.handler
    if handler.declines != "never" or not handler.result.single:
        return
    for entry in rule.entries:
        contradiction = _contradiction(entry)
        if contradiction is not None:
            text = f"`{handler.name}` cannot give {handler.result.text}: {contradiction}"
            yield _at(handler, handler.place.line, "result", text)
            return


def _contradiction(entry: Entry) -> str | None:
    """What the primitive gives for a call that the entry takes, if it is not as annotated."""
    op, items = ops.find(entry.target.name), entry.handler.result.items
    if op is None or not items or op.required:
        return None
    call = entry.calls.reaching(entry.signature)
    match = None if call is None else entry.signature.match(call)
    if call is None or match is None or match.swapped or not call.certain:
        return None
    try:
        structs = [jax.ShapeDtypeStruct(each.shape, np.dtype(each.dtype)) for each in call]
        result = op.out_aval(*structs)
    except Exception:  # noqa: BLE001  # JAX refuses such a call in many ways: then it is no example
        return None
    got = describe(result)
    parameters = entry.signature.forms[0].at(len(call))
    dense = tuple(replace(each, classes=frozenset({Dense}), predicates=()) for each in items[0])
    whole = Signature.of(*parameters, Parameter("the result", dense))
    if whole.match((*call, got)) is not None:
        return None
    names = [*(each.name for each in parameters), "the result"]
    reason = in_terms_of(names, mismatch(whole, (*call, got)))
    shown = ", ".join(map(str, call))
    return f"{op.name}({shown}) is {str(got).removeprefix('Array ')}; {reason}"


def _of_declines(handler: Handler) -> Iterator[Finding]:
    """What is returned that is no result, or no result but declines."""
    if gives_nothing(handler.function):
        text = f"`{handler.name}` gives nothing: no `return` in it has a value"
        yield _at(handler, handler.place.line, "result", text)
        return
    found = sorted(returned(handler.function), key=lambda each: each[1])
    for node, line in found:
        if _name(node) == "Declined":
            text = f"`{handler.name}` returns {ast.unparse(node)}, a class; DECLINE is meant"
            yield _at(handler, line, "result", text)
    declines = [(node, line) for node, line in found if _name(node) in _DECLINING]
    if handler.declines == "never":
        for node, line in declines:
            text = (
                f"`{handler.name}` returns {ast.unparse(node)}, which its return annotation "
                f"{handler.result.text} does not have: add `| Declined`"
            )
            yield _at(handler, line, "undeclared-decline", text)
    elif handler.result.items == ():
        text = f"`{handler.name}` declines every call: it is annotated {handler.result.text} alone"
        yield _at(handler, handler.place.line, "always-declines", text)
    elif declines and len(declines) == len(found):
        shown = " and ".join(dict.fromkeys(ast.unparse(node) for node, _ in declines))
        text = f"`{handler.name}` declines every call: it returns nothing but {shown}"
        yield _at(handler, handler.place.line, "always-declines", text)


_DECLINING = ("DECLINE", "NotImplemented")


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
