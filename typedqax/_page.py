"""Pages of HTML that need nothing but themselves, and what they are made of."""

from __future__ import annotations

import html
from collections.abc import Sequence

_STYLE = """
.typedqax { --text: #1f2328; --muted: #59636e; --line: #d8dee4; --back: #fff; --card: #f6f8fa;
  --fine: #1a7f37; --fine-back: #dafbe1; --dense: #bc4c00; --dense-back: #fff1e5;
  --implicit: #8250df;
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; color: var(--text);
  background: var(--back); container-type: inline-size; text-align: left; }
.typedqax * { box-sizing: border-box; }
.typedqax h1 { font-size: 1.45rem; font-weight: 650; margin: 0; line-height: 1.3;
  overflow-wrap: anywhere; }
.typedqax h1 code { font-size: 1.4rem; line-height: 1.3; }
.typedqax h2 { font-size: 1.02rem; font-weight: 650; margin: 1.9rem 0 .5rem; }
.typedqax p { margin: .25rem 0; color: var(--muted); max-width: 96ch; }
.typedqax code { font: 12.5px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  color: inherit; background: none; padding: 0; overflow-wrap: anywhere; }
.typedqax .muted { color: var(--muted); }
.typedqax .implicit { color: var(--implicit); }
.typedqax .chip { display: inline-block; font-size: 12px; font-weight: 600; line-height: 1.5;
  padding: 0 .55em; border-radius: 1em; background: var(--card); color: var(--muted);
  white-space: nowrap; }
.typedqax .chip.fine { background: var(--fine-back); color: var(--fine); }
.typedqax .chip.dense { background: var(--dense-back); color: var(--dense); }
.typedqax .tiles { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1.1rem 0 .2rem; }
.typedqax .tile { flex: 1 1 9rem; border: 1px solid var(--line); border-radius: 8px;
  padding: .6rem .9rem; background: var(--card); }
.typedqax .tile b { display: block; font-size: 1.5rem; font-weight: 650; line-height: 1.25; }
.typedqax .tile span { color: var(--muted); font-size: 13px; }
.typedqax .tile.fine b { color: var(--fine); }
.typedqax .tile.dense { border-color: var(--dense); background: var(--dense-back); }
.typedqax .tile.dense b, .typedqax .tile.dense span { color: var(--dense); }
.typedqax table { border-collapse: collapse; width: 100%; margin: .3rem 0; font-size: 14px; }
.typedqax th { text-align: left; font-weight: 600; font-size: 12.5px; color: var(--muted);
  border-bottom: 1px solid var(--line); background: none; white-space: nowrap; }
.typedqax th, .typedqax td { padding: .38rem .8rem .38rem .6rem; vertical-align: top; }
.typedqax td { text-align: left; border-bottom: 1px solid var(--line); background: none; }
.typedqax tr:last-child td { border-bottom: 0; }
.typedqax .number { text-align: right; width: 1%; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
.typedqax tr.dense td { background: var(--dense-back); }
.typedqax tr.idle td { color: var(--muted); }
.typedqax ul { margin: .2rem 0 0; padding-left: 1.1rem; color: var(--muted); font-size: 13px; }
.typedqax li { margin: 0; overflow-wrap: anywhere; }
.typedqax .box { border: 1px solid var(--line); border-radius: 8px; overflow: hidden; }
.typedqax .box > table { margin: 0; }
.typedqax details { border-top: 1px solid var(--line); }
.typedqax .box > details:first-child { border-top: 0; }
.typedqax summary { cursor: pointer; padding: .38rem .8rem; display: flex; gap: .6rem;
  align-items: baseline; flex-wrap: wrap; }
.typedqax summary::before { content: "▸"; color: var(--muted); width: .7em; }
.typedqax details[open] > summary::before { content: "▾"; }
.typedqax summary::-webkit-details-marker { display: none; }
.typedqax summary:hover { background: var(--card); }
.typedqax summary code { font-weight: 600; }
.typedqax summary .end { margin-left: auto; }
.typedqax .inside { margin-left: 1.15rem; border-left: 1px solid var(--line); }
.typedqax .step { display: grid; grid-template-columns: 3.2rem minmax(0, 1.5fr) minmax(0, 1fr);
  column-gap: .8rem; padding: .38rem .8rem .38rem .5rem; border-top: 1px solid var(--line);
  border-left: 3px solid var(--fine); }
.typedqax .box > .step:first-child { border-top: 0; }
.typedqax .step.dense { border-left-color: var(--dense); background: var(--dense-back); }
.typedqax .step .source { white-space: pre-wrap; }
.typedqax .step.dense .outcome { color: var(--dense); font-weight: 600; }
@container (max-width: 620px) {
  .typedqax .step { grid-template-columns: 2.4rem minmax(0, 1fr); row-gap: .1rem; }
  .typedqax .step > :last-child { grid-column: 2; }
  .typedqax .inside { margin-left: .45rem; }
  .typedqax thead { display: none; }
  .typedqax tbody, .typedqax tr, .typedqax td { display: block; }
  .typedqax tr { border-bottom: 1px solid var(--line); padding: .3rem 0; }
  .typedqax td { border: 0; padding: .05rem .6rem; }
  .typedqax td:empty { display: none; }
  .typedqax td.number { text-align: left; width: auto; }
  .typedqax td.number::after { content: " " attr(data-counts); color: var(--muted); }
}
"""

_DARK = """--text: #e6edf3; --muted: #9198a1; --line: #30363d; --back: #0d1117; --card: #161b22;
  --fine: #3fb950; --fine-back: #12261e; --dense: #f0883e; --dense-back: #2d1a0c;
  --implicit: #d2a8ff;"""

_THEMES = f"""
@media (prefers-color-scheme: dark) {{ .typedqax-page, .typedqax-page .typedqax {{ {_DARK} }} }}
[data-jp-theme-light="false"] .typedqax, .vscode-dark .typedqax, html[theme="dark"] .typedqax
  {{ {_DARK} }}
.typedqax-page {{ margin: 0; background: #fff; }}
@media (prefers-color-scheme: dark) {{ .typedqax-page {{ background: #0d1117; }} }}
.typedqax-page .typedqax {{ max-width: 76rem; margin: 0 auto; padding: 1.8rem 1.6rem 3rem; }}
@media (max-width: 620px) {{ .typedqax-page .typedqax {{ padding: 1.1rem .9rem 2rem; }} }}
"""


def code(text: str, *, kind: str = "", title: str = "") -> str:
    """Code; `title` is shown when it is pointed at."""
    of_kind = f' class="{kind}"' if kind else ""
    hover = f' title="{html.escape(title)}"' if title else ""
    return f"<code{of_kind}{hover}>{html.escape(text)}</code>"


def chip(text: str, kind: str = "") -> str:
    """A short word on a ground of its own."""
    return f'<span class="chip {kind}">{html.escape(text)}</span>'


def listed(notes: Sequence[str]) -> str:
    """Notes, one below the other; nothing where there are none."""
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<ul>{items}</ul>" if notes else ""


def heading(title: str, subtitle: str) -> str:
    """What all of it is about."""
    return f"<h1><code>{html.escape(title)}</code></h1>\n<p>{html.escape(subtitle)}</p>\n"


def section(title: str, body: str, note: str = "") -> str:
    """A part of a page under its title; nothing where it has no body."""
    said = f"<p>{html.escape(note)}</p>\n" if note else ""
    return f"<h2>{html.escape(title)}</h2>\n{said}{body}\n" if body else ""


def tiles(facts: Sequence[tuple[str, str, str]]) -> str:
    """Numbers to be seen first: each with what it counts, and its kind."""
    shown = "".join(
        f'<div class="tile {kind}"><b>{html.escape(number)}</b>'
        f"<span>{html.escape(counted)}</span></div>"
        for number, counted, kind in facts
    )
    return f'<div class="tiles">{shown}</div>\n'


def cell(content: str, *, counts: str = "") -> str:
    """A cell of a table; one that holds a number says what it counts, where there is no head."""
    kind = f' class="number" data-counts="{counts}"' if counts else ""
    return f"<td{kind}>{content}</td>"


def row(kind: str, *cells: str) -> str:
    """A row of a table."""
    return f'<tr class="{kind}">{"".join(cells)}</tr>'


def table(head: Sequence[str], rows: Sequence[str], numbers: Sequence[int] = ()) -> str:
    """Rows under their head; `numbers` are the columns that hold some."""
    kinds = [' class="number"' if place in numbers else "" for place in range(len(head))]
    shown = "".join(
        f"<th{kind}>{html.escape(each)}</th>" for kind, each in zip(kinds, head, strict=True)
    )
    body = "\n".join(rows)
    return (
        f'<div class="box"><table>\n<thead><tr>{shown}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def box(body: str) -> str:
    """Steps and foldings in a frame; nothing where there are none."""
    return f'<div class="box">{body}</div>' if body else ""


def folding(summary: str, body: str, *, is_open: bool) -> str:
    """What can be folded away under its summary."""
    opened = " open" if is_open else ""
    return (
        f"<details{opened}><summary>{summary}</summary>\n"
        f'<div class="inside">{body}</div></details>\n'
    )


def step(kind: str, count: int, call: str, where: str, outcome: str) -> str:
    """One step of a program: how often, what was called and where, and what became of it."""
    often = f"{count} x" if count > 1 else ""
    return (
        f'<div class="step {kind}"><span class="number muted">{often}</span>'
        f"<div><div>{call}</div><div>{where}</div></div><div>{outcome}</div></div>\n"
    )


def fragment(*parts: str) -> str:
    """What a notebook shows."""
    return f'<div class="typedqax"><style>{_STYLE}{_THEMES}</style>\n{"".join(parts)}\n</div>'


def page(title: str, body: str) -> str:
    """A whole page around a fragment; it loads nothing."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html.escape(title)}</title>\n</head>\n"
        f'<body class="typedqax-page">\n{body}\n</body>\n</html>\n'
    )
