"""Pictures as HTML pages of their own: hover an element to see everything that is known of it."""

from __future__ import annotations

from html import escape

from flydsl.layout.drawing.model import Picture
from flydsl.layout.drawing.svg import svg_body

__all__ = ["to_html"]

_STYLE = """
body { margin: 0; font-family: system-ui, sans-serif; background: #fff; color: #111; }
main { overflow: auto; padding: 0 0 7em; }
#facts { position: fixed; left: 0; right: 0; bottom: 0; min-height: 4.6em; padding: .6em 1em;
  background: #f7f7f2; border-top: 1px solid #999; font: 14px/1.5 ui-monospace, monospace; }
#facts b { display: inline-block; margin-right: .4em; }
#facts span { display: inline-block; margin-right: 1.6em; }
g[data-k]:hover rect { stroke: #111; stroke-width: 2.5; }
svg.lit g[data-k]:not(.on) { opacity: .35; }
"""

# The tool tips hold the facts; the script shows them and lights up cells of the same key.
_SCRIPT = """
const facts = document.getElementById('facts'), svg = document.querySelector('svg');
const cells = [...svg.querySelectorAll('g')];
const resting = facts.textContent;
for (const cell of cells) {
  const lines = cell.querySelector('title').textContent.split('\\n');
  cell.querySelector('title').remove();
  cell.addEventListener('mouseenter', () => {
    facts.replaceChildren(...lines.map(line => {
      const [name, ...rest] = line.split(': ');
      const item = document.createElement('span'), head = document.createElement('b');
      head.textContent = name;
      item.append(head, rest.join(': '));
      return item;
    }));
    const key = cell.dataset.k;
    if (key === undefined) return;
    svg.classList.add('lit');
    for (const other of cells) other.classList.toggle('on', other.dataset.k === key);
  });
}
svg.addEventListener('mouseleave', () => {
  facts.textContent = resting;
  svg.classList.remove('lit');
});
"""


def to_html(picture: Picture) -> str:
    """Return a page with the picture; it needs no network and no other file."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(picture.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n{svg_body(picture)}\n</main>\n"
        '<div id="facts" aria-live="polite">Point at an element.</div>\n'
        f"<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )
