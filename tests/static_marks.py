"""The marks in `tests/static`: what each checker must say of a line of a wrong file."""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

MARK = re.compile(r"# E\[(?P<checker>\w+)\]: (?P<code>[\w-]+): (?P<telling>.+?)(?=\s+# E\[|$)")


@dataclass(frozen=True, slots=True)
class Mark:
    """One error that a file says a checker must report; `code` is "none" for one it cannot see."""

    checker: str
    line: int
    code: str
    telling: str

    def __str__(self) -> str:
        return f"line {self.line}: [{self.code}] ...{self.telling}..."


def marks_in(source: str) -> list[Mark]:
    """The marks of a file, each with the line of code that it is about."""
    found: list[Mark] = []
    waiting: list[tuple[str, str, str]] = []
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    last_code = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.COMMENT:
            if "E[" in token.string and not MARK.search(token.string):
                raise ValueError(f"line {line}: not a mark: {token.string}")
            parts = [(m["checker"], m["code"], m["telling"]) for m in MARK.finditer(token.string)]
            if last_code == line:
                found += [Mark(checker, line, *rest) for checker, *rest in parts]
            else:
                waiting += parts
        elif token.type not in layout:
            found += [Mark(checker, line, *rest) for checker, *rest in waiting]
            waiting = []
            last_code = token.end[0]
    if waiting:
        raise ValueError(f"marks after the last line of code: {waiting}")
    return found
