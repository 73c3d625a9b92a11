"""One HTML file that needs nothing else: the skeleton and the style of every page that this library writes.

Pictures are inside the file, tables scroll within their own frame, so that the page never does; light and dark follow
the reader's system, and pictures stand on white in both.
"""

from __future__ import annotations

import base64
import html
import struct
from pathlib import Path

from halfwave.files import written_aside


def escape(text: str) -> str:
    """Text as HTML, in an attribute too."""
    return html.escape(text, quote=True)


def page(title: str, body: str) -> str:
    """The whole document around `body`, which is HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head>\n<body>\n<main>\n{body}\n</main>\n</body></html>\n"
    )


def table(caption: str, head: str, rows: str) -> str:
    """A table in a frame of its own that scrolls, with the keyboard too; `head` and `rows` are HTML rows."""
    caption = escape(caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table><caption>{caption}</caption>'
        f"<thead>{head}</thead><tbody>{rows}</tbody></table></div>"
    )


def picture(png: bytes, alternative: str) -> str:
    """An image inside the page. Its size is stated, so that nothing moves while the page is drawn."""
    width, height = struct.unpack(">II", png[16:24])
    data = base64.b64encode(png).decode("ascii")
    return (
        f'<figure><img alt="{escape(alternative)}" width="{width}" height="{height}" '
        f'src="data:image/png;base64,{data}"></figure>'
    )


def items(lines: tuple[str, ...] | list[str]) -> str:
    """Sentences as a list in small print."""
    return f'<ul class="small">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --paper: #fff; --card: #f6f8fa;
  --link: #0550ae; --good: #116329; --bad: #a40e26; --warn: #7d4e00; --none: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9da7b3; --line: #30363d; --paper: #0d1117;
  --card: #161b22; --link: #79c0ff; --good: #56d364; --bad: #ff9492; --warn: #e3b341; --none: #9da7b3; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0;
  overflow-wrap: break-word; }
main { max-width: 66rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .25rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .5rem 0; max-width: 48rem; }
a { color: var(--link); }
code { font: .9em ui-monospace, monospace; background: var(--card); padding: .1em .3em; border-radius: 4px; }
.soft, .small { color: var(--soft); }
.small { font-size: .875rem; max-width: 60rem; padding-left: 1.2rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9375rem; }
caption { text-align: left; color: var(--soft); font-size: .875rem; padding-bottom: .35rem; }
th, td { padding: .3rem .75rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; font-weight: 600; white-space: normal; }
th.group { text-align: center; }
tbody th, th.label { text-align: left; font-weight: 500; }
td.paper { color: var(--soft); }
td.ours { font-weight: 600; }
td.gap, th.gap { border-left: 1px solid var(--line); }
.ratio { font-weight: bold; }
figure { margin: 0; max-width: 36rem; }
.wide figure { max-width: none; }
img { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line); border-radius: 6px; }
.pictures { display: grid; gap: 1rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); }
section { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 1.5rem; }
.verdict { background: var(--card); border-left: 4px solid currentColor; padding: .6rem .9rem; max-width: none; }
.verdict span:not(.badge) { color: var(--ink); }
.badge { display: inline-block; font-size: .8125rem; font-weight: 600; line-height: 1.4; padding: 0 .55em;
  border: 1px solid currentColor; border-radius: 1em; white-space: nowrap; }
.confirmed { color: var(--good); } .not-confirmed { color: var(--bad); }
.not-measured, .missing { color: var(--none); } .incomplete, .changed-by-hand, .unreadable { color: var(--warn); }
.counts { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 1rem 0; list-style: none; }
.counts li { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .4rem .9rem; }
.counts b { font-size: 1.35rem; display: block; line-height: 1.2; }
.list { list-style: none; padding: 0; margin: 1rem 0; }
.list li { display: grid; grid-template-columns: 10.5rem 12.5rem 1fr; gap: .1rem .75rem; padding: .3rem 0;
  border-bottom: 1px solid var(--line); align-items: baseline; }
.list .badge { justify-self: start; }
@media (max-width: 44rem) { .list li { grid-template-columns: auto 1fr; }
  .list li span:last-child { grid-column: 1 / 3; }
  tbody th { white-space: normal; max-width: 7.5rem; } th, td { padding: .3rem .5rem; } }
@media print { section { break-before: page; } .scroll { overflow: visible; } th, td { padding: .15rem .4rem; } }
"""
