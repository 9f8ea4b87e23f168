"""One HTML page that needs nothing but itself: no script, no address, pictures inline. Pure."""

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light; --ink: #1c2733; --soft: #66758a; --rule: #e3e8ef; --blue: #2563c9; --red: #c8452d; }
body { margin: 0 auto; max-width: 1080px; padding: 28px 24px 60px; color: var(--ink); background: #fff;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 25px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 2px; }
h3 { font-size: 14px; margin: 8px 0 0; }
p { margin: 4px 0 10px; color: var(--soft); max-width: 80ch; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0; }
.tile { border: 1px solid var(--rule); border-radius: 8px; padding: 8px 14px; min-width: 96px; }
.tile b { display: block; font-size: 21px; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 12.5px; }
.row { display: flex; flex-wrap: wrap; gap: 20px; align-items: flex-start; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: 13px; max-width: 420px; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; margin: 8px 0; }
th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--rule); }
th, td { padding: 3px 14px 3px 0; text-align: right; } th:first-child, td:first-child { text-align: left; }
svg { max-width: 100%; height: auto; font: 11px system-ui, "DejaVu Sans", sans-serif; }
svg .grid { stroke: var(--rule); } svg .tick { fill: var(--soft); } svg .axis, svg .note { fill: var(--ink); }
svg polyline { fill: none; stroke-width: 1.8; }
svg .said { stroke: var(--blue); } svg .came { stroke: var(--ink); stroke-width: 2.2; }
svg .even { stroke: var(--soft); stroke-dasharray: 4 4; stroke-width: 1.2; }
svg .limit { stroke: var(--red); stroke-dasharray: 6 3; } svg .dry { stroke: var(--red); }
svg polygon.wide { fill: #dbe7fb; } svg polygon.narrow { fill: #b4cdf6; }
svg circle, svg rect { fill: var(--blue); } svg circle.bad, svg rect.bad { fill: var(--red); }
svg circle.other { fill: var(--soft); } svg .whisker { stroke: var(--soft); stroke-width: 2; }
svg rect.count { fill: #dbe7fb; }
""".strip()


def page(title: str, lead: str, body: Iterable[str]) -> str:
    """The whole document."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>\n{_STYLE}\n</style></head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(lead)}</p>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def section(title: str, words: str, *parts: str) -> str:
    """A heading, what is to be seen, and the parts side by side."""
    return f'<h2>{escape(title)}</h2>\n<p>{escape(words)}</p>\n<div class="row">{"".join(parts)}</div>'


def figure(svg: str, caption: str = "") -> str:
    """A picture with words below."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{svg}{below}</figure>"


def tiles(numbers: Iterable[tuple[str, str]]) -> str:
    """Large numbers, each with what it is."""
    each = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>'
        for name, value in numbers
    )
    return f'<div class="tiles">{each}</div>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Text cells; the first column stands left, the others right."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
