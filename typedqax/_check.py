"""The check of whole programs: every finding about handlers, tables and implicit classes."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import itertools
import pkgutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import jax
import numpy as np

from typedqax import ops
from typedqax._annotations import AnnotationError, ResultPattern, result_patterns
from typedqax._aval import describe, field_layouts, is_array_like
from typedqax._collecting import Refusal, collecting
from typedqax._contracts import in_terms_of
from typedqax._dims import Axis
from typedqax._dtypes import dtype_bit
from typedqax._errors import SignatureError, TypedQaxError
from typedqax._findings import Finding, findings
from typedqax._handler import Handler, bound_names
from typedqax._hints import UnresolvedHintError, type_hints
from typedqax._installed import installed_table
from typedqax._relations import inhabited
from typedqax._rule import Rule
from typedqax._signature import ArrayPattern, Dense, Operand, Parameter, Signature
from typedqax._table import HandlerTable, live_tables, ranked
from typedqax._value import ImplicitValue, field_names


def check(*packages: str) -> list[Finding]:
    """Everything that can be said against the handlers and implicit classes of this program.

    That is: of every table that exists and of all that is installed together, what is ambiguous
    or declared twice, handlers that never run, and those whose params or results are not what
    they say; of every implicit class, fields and a `materialize` that contradict themselves. What
    may well be meant has the severity `"note"`, the rest `"error"`.

    Args:
        packages: top-level packages; given some, only what concerns their code is listed.

    Example:
        >>> import typedqax as tq
        >>> [finding for finding in tq.check("typedqax") if finding.severity == "error"]
        []
    """

    def concerns(package: str) -> bool:
        return not packages or package in packages

    found: set[Finding] = set()
    rules: dict[Rule, None] = {}
    for table in (*live_tables(), installed_table()):
        concerned = [rule for rule in table.rules if concerns(rule.handler.origin.package)]
        if concerned:
            found.update(findings(_brought_up_to_date(table)))
            rules |= dict.fromkeys(concerned)
    for rule in rules:
        found.update(_always_declines(rule))
        found.update(_undeclared_declines(rule.handler))
    for cls in _implicit_classes(ImplicitValue):
        if concerns(cls.__module__.partition(".")[0]):
            found.update(_of_class(cls))
    return sorted(each for each in found if not packages or not each.packages.isdisjoint(packages))


def _brought_up_to_date(table: HandlerTable) -> HandlerTable:
    """`table` with the ties that classes defined since it was sealed have brought."""
    if all(ranking.current for ranking in table.rankings.values()):
        return table
    rankings = ranked(table.rules, [table.rankings])
    return HandlerTable.assembled(table.name, table.rules, rankings, table.origin)


# --- handlers ------------------------------------------------------------------------------------


def _at(handler: Handler, line: int, code: str, text: str) -> Finding:
    packages = frozenset({handler.origin.package})
    return Finding(handler.place.file, line, code, text, packages=packages)


def _always_declines(rule: Rule) -> Iterator[Finding]:
    """Params without which there is no call, and with which the handler declines."""
    handler = rule.handler
    if handler.params.rest != "declined":
        return
    for target in rule.targets:
        op = ops.find(target.name)
        always = frozenset() if op is None else frozenset(op.params).difference(op._defaults)
        for name in sorted(always - handler.params.named):
            yield _at(
                handler,
                handler.place.line,
                "always-declines",
                f"`{handler.name}` declines every call of `{target.name}`, which always has the "
                f"param `{name}`: name it, or take **params",
            )


def _undeclared_declines(handler: Handler) -> Iterator[Finding]:
    """Where a handler declines whose return annotation says that it never does."""
    if handler.declines != "never":
        return
    for node, line in _returns(handler.function):
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if name in ("DECLINE", "NotImplemented"):
            yield _at(
                handler,
                line,
                "undeclared-decline",
                f"`{handler.name}` returns {ast.unparse(node)}, which its return annotation "
                f"{handler.result.text} does not have: add `| Declined`",
            )


def _returns(function: object) -> Iterator[tuple[ast.expr, int]]:
    """What a function returns, with its line, as far as its source is there to read."""
    written = inspect.unwrap(function) if callable(function) else function
    if not isinstance(written, FunctionType):
        return
    try:
        lines, first = inspect.getsourcelines(written)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):  # no source, or a lambda in the middle of an expression
        return
    waiting: list[ast.AST] = list(getattr(tree.body[0], "body", []))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Return) and node.value is not None:
            values = [node.value]
            while values:
                value = values.pop()
                if isinstance(value, ast.IfExp):
                    values += [value.body, value.orelse]
                else:
                    yield value, first + value.lineno - 1
        waiting += ast.iter_child_nodes(node)


# --- implicit classes ----------------------------------------------------------------------------


def _implicit_classes(root: type[ImplicitValue]) -> list[type[ImplicitValue]]:
    """Every implicit class that exists and can have instances, the order being that of names."""
    found: dict[type[ImplicitValue], None] = {}
    waiting = list(root.__subclasses__())
    while waiting:
        cls = waiting.pop()
        if cls not in found:
            found[cls] = None
            waiting += cls.__subclasses__()
    return sorted(
        (cls for cls in found if hasattr(cls, "materialize") and not inspect.isabstract(cls)),
        key=lambda cls: (cls.__module__, cls.__qualname__),
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """Where a class, its fields and its `materialize` stand in a file."""

    cls: type
    file: str
    line: int
    fields: Mapping[str, int]

    @classmethod
    def of(cls, described: type) -> _Written:
        """The places of `described`."""
        try:
            file = inspect.getsourcefile(described) or "<unknown>"
            lines, first = inspect.getsourcelines(described)
            body = getattr(ast.parse(textwrap.dedent("".join(lines))).body[0], "body", [])
        except (OSError, TypeError, SyntaxError):
            file = getattr(sys.modules.get(described.__module__), "__file__", None) or "<unknown>"
            return cls(described, file, 1, {})
        names = {
            node.target.id: first + node.lineno - 1
            for node in body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        return cls(described, file, first, names)

    def finding(self, line: int | None, code: str, text: str) -> Finding:
        """A finding about the class, or about what stands on a line of it."""
        packages = frozenset({self.cls.__module__.partition(".")[0]})
        return Finding(self.file, line or self.line, code, text, packages=packages)


def _of_class(cls: type[ImplicitValue]) -> Iterator[Finding]:
    """What is wrong with the fields of a class, and with its `materialize`."""
    written = _Written.of(cls)
    try:
        layouts = field_layouts(cls)
    except SignatureError as error:
        line = written.fields.get(error.handler.rpartition(".")[2])
        for problem in error.problems:
            yield written.finding(line, "field", f"`{error.handler}`: {problem}")
        return
    except (TypeError, ValueError, AttributeError, SyntaxError) as error:
        # What jaxtyping and Python raise when a postponed annotation is evaluated.
        found = list(_unresolved(written)) or [(None, f"{type(error).__name__}: {error}")]
        for name, reason in found:
            whose = cls.__qualname__ if name is None else f"{cls.__qualname__}.{name}"
            line = None if name is None else written.fields.get(name)
            yield written.finding(line, "field", f"the annotation of `{whose}`: {reason}")
        return
    parameters = [
        Parameter(name, _of_axes_alone(layout.patterns), text=layout.patterns[0].text)
        for name, layout in layouts.items()
        if layout.patterns is not None
    ]
    alike = Signature.of(*parameters)
    witness = inhabited(alike) if parameters else ()
    if witness is None or alike.match(witness) is None:
        shown = ", ".join(map(str, parameters))
        text = f"the axes of the fields of `{cls.__qualname__}` never agree: no sizes fit {shown}"
        finding = written.finding(None, "field", text)
        # What the search could neither find nor exclude is but noted.
        yield finding if witness is None else replace(finding, severity="note")
        return
    yield from _of_materialize(written, cls, parameters, witness)


def _unresolved(written: _Written) -> Iterator[tuple[str | None, str]]:
    """The fields whose annotations cannot be evaluated, and why."""
    cls = written.cls
    namespace = {
        **vars(sys.modules.get(cls.__module__, object)),
        **cls.__dict__.get("_defining_locals", {}),
    }
    for name, annotation in inspect.get_annotations(cls).items():
        holder: Any = SimpleNamespace(__annotations__={name: annotation}, __globals__=namespace)
        try:
            type_hints(holder)
        except UnresolvedHintError as error:
            yield name, error.reason


def _of_axes_alone(patterns: Sequence[ArrayPattern]) -> tuple[ArrayPattern, ...]:
    """`patterns` of dense arrays: the classes that fields may hold never contradict each other."""
    return tuple(replace(each, classes=frozenset({Dense}), predicates=()) for each in patterns)


def _of_materialize(
    written: _Written,
    cls: type[ImplicitValue],
    parameters: Sequence[Parameter],
    witness: tuple[Operand, ...],
) -> Iterator[Finding]:
    """What is wrong with the return annotation of `materialize`."""
    function: Any = cls.materialize  # type: ignore[attr-defined]  # of ImplicitArray
    code = getattr(inspect.unwrap(function), "__code__", None)
    line = written.line if code is None else code.co_firstlineno
    if code is not None and code.co_filename != written.file:
        written, line = replace(written, file=code.co_filename), code.co_firstlineno
    name = f"`{cls.__qualname__}.materialize`"
    try:
        result = result_patterns(type_hints(function).get("return", Any))
    except (UnresolvedHintError, AnnotationError) as error:
        reason = getattr(error, "reason", "") or error
        yield written.finding(line, "materialize", f"{name}: its return annotation: {reason}")
        return
    if result.items is None:
        return
    if not result.single or result.may_decline:
        text = f"{name} returns one array, and never declines; it is annotated {result.text}"
        yield written.finding(line, "materialize", text)
        return
    known: frozenset[str] = frozenset().union(
        *(bound_names(each) for parameter in parameters for each in parameter.alternatives)
    )
    free = sorted(result.names - known)
    if free:
        names = ", ".join(repr(each) for each in free)
        yield written.finding(
            line,
            "materialize",
            f"{name}: the axis {names} of its result {result.text} is in no field: misspelt, or "
            "write `_` (`...` for any number of axes)",
        )
        return
    problem = _contradiction(cls, parameters, witness, result)
    if problem is not None:
        yield written.finding(line, "materialize", f"{name} {problem}")


def _contradiction(
    cls: type[ImplicitValue],
    parameters: Sequence[Parameter],
    witness: tuple[Operand, ...],
    result: ResultPattern,
) -> str | None:
    """What `materialize` gives for fields of different sizes, if that is not as annotated."""
    alike = Signature.of(*parameters)
    operands = _of_different_sizes(parameters, witness)
    if alike.match(operands) is None:
        operands = witness
    dense = _evaluated(cls, parameters, operands)
    items = result.items
    if dense is None or items is None:
        return None
    alternatives = _of_axes_alone(items[0])
    whole = Signature.of(*parameters, Parameter("result", alternatives, text=result.text))
    if whole.match((*operands, dense)) is not None:
        return None
    given = ", ".join(f"{p.name}={o}" for p, o in zip(parameters, operands, strict=True))
    names = [*(parameter.name for parameter in parameters), "the result"]
    reason = in_terms_of(names, whole.mismatch((*operands, dense)))
    return f"gives {dense} for {given}, and is annotated {result.text}: {reason}"


_USUAL_DTYPES = ("float32", "int32", "bool", "complex64", "uint8", "int8")


def _of_different_sizes(
    parameters: Sequence[Parameter], witness: Sequence[Operand]
) -> tuple[Operand, ...]:
    """`witness` with a size of its own for each axis name, so that no two are equal by chance."""
    fresh = itertools.chain((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37), itertools.repeat(41))
    sizes: dict[str, int] = defaultdict(lambda: next(fresh))

    def size(axis: Axis) -> int:
        if isinstance(axis.size, int):
            return axis.size
        return sizes[axis.size] if isinstance(axis.size, str) else next(fresh)

    def of(pattern: ArrayPattern, operand: Operand) -> Operand:
        names = [name for name in _USUAL_DTYPES if pattern.dtypes >> dtype_bit(name) & 1]
        axes = (*pattern.dims.left, *pattern.dims.right)
        return Operand(Dense, (names or [operand.dtype])[0], tuple(size(axis) for axis in axes))

    return tuple(
        of(parameter.alternatives[0], operand)
        for parameter, operand in zip(parameters, witness, strict=True)
    )


def _evaluated(
    cls: type[ImplicitValue], parameters: Sequence[Parameter], operands: Sequence[Operand]
) -> Operand | None:
    """What `materialize` gives, abstractly; None where an instance takes more to be made."""
    if {parameter.name for parameter in parameters} != set(field_names(cls).children):
        return None
    value: Any = object.__new__(cls)
    state = value.__dict__
    state["_given_shape"] = state["_given_dtype"] = None
    for each in fields(cls):
        if each.default is not MISSING:
            state[each.name] = each.default
        elif each.default_factory is not MISSING:
            state[each.name] = each.default_factory()
    if any(name not in state for name in field_names(cls).auxiliary):
        return None
    try:
        for parameter, operand in zip(parameters, operands, strict=True):
            struct = jax.ShapeDtypeStruct(operand.shape, np.dtype(operand.dtype))
            state[parameter.name] = struct
        dense = jax.eval_shape(lambda array: array.materialize(), value)
        return describe(dense) if is_array_like(dense) else None
    except Exception:  # noqa: BLE001  # what such sizes or dtypes make it raise is no finding
        return None


# --- packages ------------------------------------------------------------------------------------


class WrongUsageError(TypedQaxError):
    """What was asked to be checked is not there, or is no module."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What the check of some packages gave.

    Attributes:
        findings: all of them, sorted by place.
        modules: how many modules were imported.
    """

    findings: tuple[Finding, ...]
    modules: int

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(each.severity == "error" for each in self.findings)


def check_packages(*names: str) -> Checked:
    """Import every module of these packages, and check what they declare.

    Raises:
        WrongUsageError: there is no such package.
    """
    roots = tuple(name.partition(".")[0] for name in names)
    for name in names:
        _must_exist(name)
    found: set[Finding] = set()
    modules: set[str] = set()
    with collecting() as refusals:
        for name in names:
            for module, failure in _imported(name):
                modules.add(module)
                if isinstance(failure, ModuleNotFoundError) and failure.name == name:
                    raise WrongUsageError(f"there is no module {name!r}{_meant(name)}")
                if failure is not None:
                    found.add(_of_failure(module, failure))
        found.update(check(*roots))
    for refusal in refusals:
        found.update(each for each in _of_refusal(refusal) if _is_own(each.file, roots))
    return Checked(tuple(sorted(found)), len(modules))


def _must_exist(name: str) -> None:
    if not all(part.isidentifier() for part in name.split(".")):
        raise WrongUsageError(f"{name!r} is no module's name{_meant(name)}")
    top = name.partition(".")[0]
    if top not in sys.modules and importlib.util.find_spec(top) is None:
        raise WrongUsageError(f"there is no package or module {top!r} on the path{_meant(name)}")


def _meant(name: str) -> str:
    """A question whether a module was meant, where `name` is that of a file or folder."""
    parts = name.removesuffix(".py").replace("\\", "/").strip("/").split("/")
    hint = ".".join(part for part in parts if part != ".").removesuffix(".__init__")
    usable = hint != name and all(part.isidentifier() for part in hint.split("."))
    return f"; did you mean {hint!r}?" if usable else ""


def _imported(name: str) -> Iterator[tuple[str, BaseException | None]]:
    """Each module of a package after its import, with what that raised."""
    try:
        module = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever it raises is a finding
        yield name, error
        return
    yield name, None
    for found in pkgutil.iter_modules(_search_path(module), f"{name}."):
        if found.name.rpartition(".")[2] != "__main__":
            yield from _imported(found.name)


def _search_path(module: ModuleType) -> Sequence[str]:
    return list(getattr(module, "__path__", ()))


def _of_failure(module: str, error: BaseException) -> Finding:
    """The finding that importing `module` failed, at the line of its own that failed."""
    top = module.partition(".")[0]
    file, line = _place_of_failure(top, error)
    said = str(error).partition("\n")[0][:300]
    text = f"importing `{module}` fails: {type(error).__name__}: {said}".rstrip(": ")
    return Finding(file, line, "import", text, packages=frozenset({top}))


def _place_of_failure(top: str, error: BaseException) -> tuple[str, int]:
    """The innermost line of the package that the error came through."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.filename, error.lineno or 1
    place = (_home(top), 1)
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if _is_own(file, [top]):
            place = (file, trace.tb_lineno)
        trace = trace.tb_next
    return place


def _is_own(file: str, roots: Iterable[str]) -> bool:
    """Whether a file belongs to one of these top-level packages or modules."""
    for root in roots:
        home = Path(_home(root))
        if Path(file) == home:
            return True
        if home.name == "__init__.py" and home.parent in Path(file).parents:
            return True
    return False


def _home(root: str) -> str:
    """The file of a top-level package or module; of one without a file, an `__init__.py`."""
    spec = importlib.util.find_spec(root)
    if spec is None:
        return root
    folders = list(spec.submodule_search_locations or ())
    return spec.origin or (str(Path(folders[0]) / "__init__.py") if folders else root)


def _of_refusal(refusal: Refusal) -> Iterator[Finding]:
    """The findings about a handler that could not be one."""
    error = refusal.error
    file, _, line = error.place.rpartition(":")
    if not (file and line.isdigit()):
        file, line = refusal.file, str(refusal.line)
    for problem in error.problems:
        yield Finding(file, int(line), "signature", f"`{error.handler}`: {problem}")
