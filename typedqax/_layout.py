"""Layout: tables that fit a terminal, and pages of HTML that need nothing but themselves."""

from __future__ import annotations

import html
import os
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path

NARROWEST, WIDEST = 80, 120
"""The widths between which a table takes that of the terminal."""


def terminal_width() -> int:
    """The width of the terminal, or what a reader is comfortable with."""
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size((100, 24)).columns))


def clipped(text: str, width: int) -> str:
    """`text` in at most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


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
    rows: Sequence[tuple[Sequence[str], Sequence[str]]],
    shares: Sequence[int],
    width: int,
) -> str:
    """Rows under their head; what is too wide is cut. Each row brings notes, which are wrapped.

    Columns take what they need, up to `shares` (per cent) of the width where that is too little.
    """
    needed = [
        max([len(head[column]), *(len(cells[column]) for cells, _ in rows)])
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

    def line(cells: Sequence[str]) -> str:
        shown = [clipped(cell, size) for cell, size in zip(cells, widths, strict=True)]
        # The first column holds numbers.
        padded = [shown[0].rjust(widths[0])]
        padded += [cell.ljust(size) for cell, size in zip(shown[1:], widths[1:], strict=True)]
        return "  ".join(padded).rstrip()

    indent = " " * (widths[0] + 4)
    lines = [line(head), "─" * min(width, sum(widths) + 2 * (len(head) - 1))]
    for cells, notes in rows:
        lines.append(line(cells))
        for note in notes:
            lines += textwrap.wrap(
                note, width, initial_indent=indent + "· ", subsequent_indent=indent + "  ",
                break_on_hyphens=False,
            )  # fmt: skip
    return "\n".join(lines)


# --- HTML ----------------------------------------------------------------------------------------

_STYLE = """
.typedqax { font: 14px/1.45 system-ui, sans-serif; color: #1b1f24; max-width: 72rem; }
.typedqax code { font: 12.5px ui-monospace, Menlo, Consolas, monospace; }
.typedqax table { border-collapse: collapse; width: 100%; margin: .6rem 0; }
.typedqax th { text-align: left; font-weight: 600; border-bottom: 2px solid #8b949e; }
.typedqax th, .typedqax td { padding: .3rem .6rem; vertical-align: top; }
.typedqax td { border-bottom: 1px solid #d0d7de; text-align: left; }
.typedqax td.count { text-align: right; }
.typedqax tr.dense td { background: #fff1e5; }
.typedqax tr.dense td:first-child { border-left: 4px solid #d1570a; }
.typedqax tr.fine td:first-child { border-left: 4px solid #2da44e; }
.typedqax tr.idle td { color: #656d76; }
.typedqax tr.idle td:first-child { border-left: 4px solid #d0d7de; }
.typedqax ul { margin: .2rem 0; padding-left: 1.2rem; color: #656d76; }
@media (prefers-color-scheme: dark) {
  body.typedqax-page { background: #0d1117; }
  .typedqax-page .typedqax { color: #e6edf3; }
  .typedqax-page .typedqax td { border-color: #30363d; }
  .typedqax-page .typedqax tr.dense td { background: #3d2200; }
  .typedqax-page .typedqax tr.idle td, .typedqax-page .typedqax ul { color: #9198a1; }
}
"""


def html_cell(text: str, notes: Sequence[str] = (), title: str = "") -> str:
    """Code in a cell, with notes under it; `title` is shown when it is pointed at."""
    hover = f' title="{html.escape(title)}"' if title else ""
    listed = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    below = f"<ul>{listed}</ul>" if notes else ""
    return f"<code{hover}>{html.escape(text)}</code>{below}"


def html_fragment(
    title: str,
    totals: Sequence[str],
    head: Sequence[str],
    rows: Sequence[tuple[str, Sequence[str]]],
) -> str:
    """A heading, what it comes to, and a table; each row brings its class and its cells."""
    shown_head = "".join(f"<th>{html.escape(each)}</th>" for each in head)
    body = "".join(
        f'<tr class="{kind}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>\n'
        for kind, cells in rows
    )
    paragraphs = "".join(f"<p>{html.escape(total)}</p>\n" for total in totals)
    return (
        f'<div class="typedqax"><style>{_STYLE}</style>\n'
        f"<p><strong>{html.escape(title)}</strong></p>\n{paragraphs}"
        f"<table>\n<thead><tr>{shown_head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>"
    )


def html_page(title: str, fragment: str) -> str:
    """A whole page around a fragment; it loads nothing."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n</head>\n"
        f'<body class="typedqax-page">\n{fragment}\n</body>\n</html>\n'
    )
