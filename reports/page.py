"""A page that is one file: readable on a phone and on a desk, by day and by night, without a network."""

from collections.abc import Sequence
from html import escape

from reports.charts import COLOURS, DARK_COLOURS, DARK_SCALE, GRID, INK, MUTED, PAPER, SCALE

_DARK = {"ink": "#e8eaed", "muted": "#a3abb5", "grid": "#343b44", "paper": "#15181c"}


def document(title: str, *parts: str, style: str = "") -> str:
    """A whole page of parts that are HTML; the title is text. `style`: what they need beside the style of all pages."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{_style()}{style}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
{"".join(parts)}</main>
</body>
</html>
"""


def paragraphs(texts: Sequence[str]) -> str:
    """Texts, each a paragraph."""
    return "".join(f"<p>{escape(text)}</p>\n" for text in texts)


def listed(title: str, texts: Sequence[str], kind: str) -> str:
    """A box with a title and texts; nothing where there is none. Kinds: `warning`, `note`."""
    items = "".join(f"<li>{escape(text)}</li>\n" for text in texts)
    return f'<section class="{kind}">\n<h2>{escape(title)}</h2>\n<ul>\n{items}</ul>\n</section>\n' if texts else ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, many: bool = False) -> str:
    """A table whose first column names the row.

    On a phone a row is a list, with the head beside each cell; of `many` rows it stays one, whose columns are moved
    past the first.
    """
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(
            f'<td data-head="{escape(name)}">{escape(cell)}</td>' for name, cell in zip(head[1:], row[1:], strict=True)
        )
        + "</tr>\n"
        for row in rows
    )
    kind = "many" if many else "few"
    return f'<div class="{kind}"><table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'


def heading(text: str) -> str:
    """What stands above a part of the page."""
    return f"<h2>{escape(text)}</h2>\n"


def log(title: str, words: str, lines: Sequence[str]) -> str:
    """What a program printed, line by line, below a title and some words."""
    printed = escape("\n".join(lines)) if lines else "(it printed nothing that is known)"
    above = f"<h3>{escape(title)}</h3>\n<p>{escape(words)}</p>\n"
    return f'<section class="warning">\n{above}<pre>{printed}</pre>\n</section>\n'


def folded(title: str, content: str) -> str:
    """Content, as HTML, that is shown when its title is touched."""
    return f"<details>\n<summary>{escape(title)}</summary>\n{content}</details>\n"


def pictures(drawn: Sequence[tuple[str, str]]) -> str:
    """SVGs, each with words for those who do not see it; beside each other where there is room."""
    figures = "".join(f'<figure role="img" aria-label="{escape(words)}">\n{svg}</figure>\n' for words, svg in drawn)
    return f'<div class="pictures">\n{figures}</div>\n'


def _style() -> str:
    light = {"ink": INK, "muted": MUTED, "grid": GRID, "paper": PAPER}
    return f""":root {{ {_variables(light, COLOURS, SCALE)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(_DARK, DARK_COLOURS, DARK_SCALE)} }} }}
{_CSS}"""


def _variables(named: dict[str, str], series: Sequence[str], scale: Sequence[str]) -> str:
    colours = {
        **named,
        **{f"series-{index}": colour for index, colour in enumerate(series)},
        **{f"scale-{index}": colour for index, colour in enumerate(scale)},
    }
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


_CSS = """* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
section h2 { margin-top: 0; }
h3 { font-size: .95rem; margin: 0; overflow-wrap: anywhere; }
p { margin: 0 0 .75rem; max-width: 46rem; overflow-wrap: anywhere; }
section { margin: 1.5rem 0 0; padding: .1rem 0 .1rem 1rem; border-left: 4px solid var(--grid); max-width: 46rem; }
section.warning { border-color: var(--series-1); }
section.note { color: var(--muted); font-size: .9rem; }
ul { margin: 0; padding-left: 1.1rem; }
li { overflow-wrap: anywhere; }
.few, .many { overflow-x: auto; margin: .5rem 0 1.5rem; }
.many th, .many td { padding: .3rem .6rem; white-space: nowrap; }
.many th:first-child { position: sticky; left: 0; background: var(--paper); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .45rem .75rem; text-align: right; border-bottom: 1px solid var(--grid); vertical-align: top; }
th:first-child { text-align: left; padding-left: 0; overflow-wrap: anywhere; }
td:last-child, th:last-child { padding-right: 0; }
thead th { color: var(--muted); font-weight: normal; font-size: .85rem; vertical-align: bottom; }
pre { margin: 0; padding: .5rem 0; overflow-x: auto; font: .8rem/1.45 ui-monospace, monospace; }
details { margin: 1.5rem 0; }
summary { cursor: pointer; font-weight: bold; padding: .5rem 0; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.5rem; }
.pictures { margin: 1.5rem 0; }
figure { margin: 0; }
svg { display: block; width: 100%; height: auto; max-width: 32rem; overflow: visible; }
svg text { font-family: system-ui, sans-serif !important; }
@media (min-width: 64rem) {
  .many { position: relative; left: 50%; translate: -50%; width: max-content; }
  .many { min-width: 100%; max-width: calc(100vw - 4rem); }
}
@media (max-width: 40rem) {
  .few thead { display: none; }
  .few tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--grid); }
  .few th, .few td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0; }
  .few td::before { content: attr(data-head); color: var(--muted); text-align: left; }
  .many { font-size: .85rem; }
}
"""
