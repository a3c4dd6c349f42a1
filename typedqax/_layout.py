"""Layout: texts and tables that fit a terminal."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NARROWEST, WIDEST = 80, 120
"""The widths between which a table takes that of the terminal."""


def terminal_width() -> int:
    """The width of the terminal, or what a reader is comfortable with."""
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size((100, 24)).columns))


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: what is cut where there is too little room.
        end: what comes after it and counts most, such as a place: of this, the end stays.
    """

    text: str
    end: str = ""

    def __str__(self) -> str:
        return self.text + self.end

    def within(self, width: int) -> str:
        """The cell in at most `width` characters."""
        if len(str(self)) <= width:
            return str(self)
        left = width - len(self.end) - 1
        if left >= 0:
            return self.text[:left] + "…" + self.end
        return "…" + self.end[len(self.end) - width + 1 :]


def working_folder() -> str:
    """The folder that paths are shown from, with a separator at its end."""
    return os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118  # pathlib drops the separator


def short_place(place: str, width: int = 40) -> str:
    """A `file:line` in at most `width` characters: from here, or its last folders."""
    here = working_folder()
    own = place.startswith(here)
    place = place.removeprefix(here) if own else "/".join(Path(place).parts[-2:])
    if len(place) > width:
        place = place.rpartition("/")[2]
    return place if len(place) <= width else "…" + place[-(width - 1) :]


def human_bytes(count: int) -> str:
    """A number of bytes, as `1.5 KiB`."""
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def table(
    head: Sequence[str],
    rows: Sequence[tuple[Sequence[Cell], Sequence[str]]],
    shares: Sequence[int],
    width: int,
) -> str:
    """Rows under their head; what is too wide is cut. Each row brings notes, which are wrapped.

    Columns take what they need, up to `shares` (per cent) of the width where that is too little.
    """
    needed = [
        max([len(head[column]), *(len(str(cells[column])) for cells, _ in rows)])
        for column in range(len(head))
    ]
    room = width - 2 * (len(head) - 1)
    widths = list(needed)
    if sum(widths) > room:
        widths = [
            min(need, room * share // 100) for need, share in zip(needed, shares, strict=True)
        ]
        for column, need in enumerate(needed):  # what others leave goes to the first that want it
            widths[column] += min(need - widths[column], room - sum(widths))

    def line(cells: Sequence[Cell]) -> str:
        shown = [cell.within(size) for cell, size in zip(cells, widths, strict=True)]
        # The first column holds numbers.
        padded = [shown[0].rjust(widths[0])]
        padded += [cell.ljust(size) for cell, size in zip(shown[1:], widths[1:], strict=True)]
        return "  ".join(padded).rstrip()

    indent = " " * (widths[0] + 4)
    lines = [line([*map(Cell, head)]), "─" * min(width, sum(widths) + 2 * (len(head) - 1))]
    for cells, notes in rows:
        lines.append(line(cells))
        for note in notes:
            lines += textwrap.wrap(
                note, width, initial_indent=indent + "· ", subsequent_indent=indent + "  ",
                break_on_hyphens=False,
            )  # fmt: skip
    return "\n".join(lines)
