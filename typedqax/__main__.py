"""The command: `python -m typedqax check PKG [PKG...]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from typedqax._check import Checked, check_packages
from typedqax._errors import UsageError
from typedqax._findings import CODES, Severity
from typedqax._layout import working_folder

USAGE = "usage: python -m typedqax check PKG [PKG...]"

HELP = f"""{USAGE}

Imports every module of the packages (names such as `mypkg` or `mypkg.arrays`, not files) and
lists all that can be said against their handlers, tables and implicit classes, sorted by place:

    file:line: error: text  [code]

A warning is what gives wrong numbers unless it is meant, a note what may well be meant. What a
module prints while it is imported goes to stderr.

exit status: 0 without errors (warnings and notes do not count), 1 with some, 2 on wrong usage,
130 interrupted

codes:
{{codes}}
"""


def main(arguments: Sequence[str]) -> int:
    """The exit status of the command."""
    if not arguments:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    if any(each in ("-h", "--help") for each in arguments):
        width = max(map(len, CODES))
        codes = "\n".join(f"    {code:{width}}  {what}" for code, what in sorted(CODES.items()))
        sys.stdout.write(HELP.format(codes=codes))
        return 0
    command, *names = arguments
    if command != "check":
        return _wrong(f"{command!r} is no command; {USAGE}")
    if not names:
        return _wrong(f"no package is given; {USAGE}")
    options = [name for name in names if name.startswith("-")]
    if options:
        return _wrong(f"{options[0]!r} is no option; {USAGE}")
    try:
        with redirect_stdout(sys.stderr):
            checked = check_packages(*names)
    except UsageError as error:
        return _wrong(str(error))
    except KeyboardInterrupt as error:
        sys.stderr.write(" ".join(["typedqax: interrupted", *getattr(error, "__notes__", ())]))
        sys.stderr.write("\n")
        return 130
    sys.stdout.write(report(checked))
    return 1 if checked.errors else 0


def report(checked: Checked) -> str:
    """A line for each finding, as mypy writes them, and one with the totals."""
    here = working_folder()
    lines = [str(finding).replace(here, "") for finding in checked.findings]
    errors, modules = checked.errors, _counted(checked.modules, "module")
    beside: list[Severity] = ["warning", "note"]
    counts = [_counted(count, each) for each in beside if (count := checked.count(each))]
    if not errors:
        more = f" ({', '.join(counts)})" if counts else ""
        return "\n".join([*lines, f"Success: no errors found in {modules}{more}", ""])
    files = len({each.file for each in checked.findings if each.severity == "error"})
    more = "".join(f" and {count}" for count in counts)
    total = f"Found {_counted(errors, 'error')} in {_counted(files, 'file')}{more}"
    return "\n".join([*lines, f"{total} (checked {modules})", ""])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _wrong(problem: str) -> int:
    sys.stderr.write(f"typedqax: {problem}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
