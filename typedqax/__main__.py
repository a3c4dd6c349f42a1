"""The command: `python -m typedqax check PKG [PKG...]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from typedqax._check import Checked, WrongUsageError, check_packages
from typedqax._layout import working_folder

USAGE = "usage: python -m typedqax check PKG [PKG...]"


def main(arguments: Sequence[str]) -> int:
    """The exit status of the command: 0 without errors, 1 with some, 2 on wrong usage."""
    if not arguments or arguments[0] in ("-h", "--help"):
        stream = sys.stdout if arguments else sys.stderr
        stream.write(f"{USAGE}\n")
        return 0 if arguments else 2
    command, *names = arguments
    if command != "check":
        return _wrong(f"{command!r} is no command; {USAGE}")
    if not names:
        return _wrong(f"no package is given; {USAGE}")
    options = [name for name in names if name.startswith("-")]
    if options:
        return _wrong(f"{options[0]!r} is no option; {USAGE}")
    try:
        checked = check_packages(*names)
    except WrongUsageError as error:
        return _wrong(str(error))
    sys.stdout.write(report(checked))
    return 1 if checked.errors else 0


def report(checked: Checked) -> str:
    """A line for each finding, as mypy writes them, and one with the totals."""
    here = working_folder()
    lines = [str(finding).replace(here, "") for finding in checked.findings]
    errors, notes = checked.errors, len(checked.findings) - checked.errors
    modules = _counted(checked.modules, "module")
    if not errors:
        more = f" ({_counted(notes, 'note')})" if notes else ""
        return "\n".join([*lines, f"Success: no errors found in {modules}{more}", ""])
    files = len({each.file for each in checked.findings if each.severity == "error"})
    more = f" and {_counted(notes, 'note')}" if notes else ""
    total = f"Found {_counted(errors, 'error')} in {_counted(files, 'file')}{more}"
    return "\n".join([*lines, f"{total} (checked {modules})", ""])


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _wrong(problem: str) -> int:
    sys.stderr.write(f"typedqax: {problem}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
