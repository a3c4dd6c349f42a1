"""The check of whole programs: every finding about handlers, tables and implicit classes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType

from typedqax import _jax
from typedqax._class_findings import class_findings
from typedqax._collecting import Refusal, collecting
from typedqax._errors import SignatureError, UsageError
from typedqax._findings import Finding, Severity, findings
from typedqax._importing import failed_imports, import_packages, is_of
from typedqax._inherited_findings import inherited_handler_findings, naming
from typedqax._installed import installed_table
from typedqax._rule import Rule
from typedqax._rule_findings import rule_findings
from typedqax._source_findings import source_findings
from typedqax._table import HandlerTable, live_tables, ranked
from typedqax._value import implicit_classes


@_jax.api_boundary
def check(*packages: str) -> list[Finding]:
    """Everything that can be said against the handlers and implicit classes of this program.

    That is: of every table that exists and of all that is installed together, what is ambiguous
    or declared twice, handlers that never run, and those whose params or results are not what
    they say; of every implicit class, fields and a `materialize` that contradict themselves, and
    handlers that were written for the `materialize` of a base. What may well be meant has the
    severity `"note"`, what gives wrong numbers unless it is meant `"warning"`, the rest `"error"`.

    It looks at what has been imported. `python -m typedqax check PKG` imports a package first, and
    lists, besides, what its imports would be stopped by.

    Args:
        packages: top-level packages; given some, only what concerns their code is listed.

    Raises:
        UsageError: such a package has not been imported, so nothing can be said of it.

    Example:
        >>> import typedqax as tq
        >>> [finding for finding in tq.check("typedqax") if finding.severity == "error"]
        []
    """
    for package in packages:
        if not _is_loaded(package):
            raise UsageError(
                f"{package!r} has not been imported, so there is nothing to check: import it "
                f"before, or run `python -m typedqax check {package}`"
            )
    return _found(packages)


def _found(packages: Iterable[str]) -> list[Finding]:
    """What is found in these top-level packages; in all that there are, where none is named."""
    wanted = frozenset(packages)

    def concerns(module: str) -> bool:
        # What a failed import has left behind is there by chance, until it is collected.
        return _is_loaded(module) and (not wanted or module.partition(".")[0] in wanted)

    found: set[Finding] = set()
    rules: dict[Rule, None] = {}
    tables = (*live_tables(), installed_table())
    for table in tables:
        concerned = [rule for rule in table.rules if concerns(rule.handler.origin.module)]
        if concerned:
            found.update(findings(_brought_up_to_date(table)))
            rules |= dict.fromkeys(concerned)
    for rule in rules:
        found.update(rule_findings(rule))
    # Of every package: a class and the handlers of its base are mostly of different ones.
    declared = {rule: None for table in tables for rule in table.rules}
    named = naming(rule for rule in declared if _is_loaded(rule.handler.origin.module))
    for cls in implicit_classes():
        if concerns(cls.__module__):
            found.update(class_findings(cls))
            found.update(inherited_handler_findings(cls, named))
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in wanted and isinstance(module, ModuleType):
            found.update(source_findings(module))
    return sorted(each for each in found if not wanted or not each.packages.isdisjoint(wanted))


def _is_loaded(module: str) -> bool:
    return module in sys.modules


def _brought_up_to_date(table: HandlerTable) -> HandlerTable:
    """`table` with the ties that classes defined since it was sealed have brought."""
    if all(ranking.current for ranking in table.rankings.values()):
        return table
    rankings = ranked(table.rules, [table.rankings])
    return HandlerTable.assembled(table.name, table.rules, rankings, table.origin)


# --- packages ------------------------------------------------------------------------------------


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
        return self.count("error")

    def count(self, severity: Severity) -> int:
        """How many findings are of this severity."""
        return sum(each.severity == severity for each in self.findings)


def check_packages(*names: str) -> Checked:
    """Import every module of these packages, and check what they declare.

    What declarations are refused for is found with the rest: none of them stops an import.

    Raises:
        UsageError: there is no such package.
    """
    roots = tuple(name.partition(".")[0] for name in names)
    with collecting() as refusals:
        modules, failures = import_packages(names)
        found = {*failed_imports(failures), *_found(roots)}
    for refusal in refusals:
        found.update(each for each in _of_refusal(refusal) if is_of(each.file, roots))
    return Checked(tuple(sorted(found)), len(modules))


def _of_refusal(refusal: Refusal) -> Iterator[Finding]:
    """The findings about something that was refused when it was declared."""
    error = refusal.error
    if not isinstance(error, SignatureError):
        yield Finding(refusal.file, refusal.line, "table", str(error))
        return
    file, _, line = error.place.rpartition(":")
    if not (file and line.isdigit()):
        file, line = refusal.file, str(refusal.line)
    for problem in error.problems:
        yield Finding(file, int(line), problem.code, f"`{error.handler}`: {problem}")
