"""One plot as inline SVG: linear axes with round ticks, and a few kinds of marks. Colours come from the page. Pure."""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

Point = tuple[float, float]
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 40
_TICKS = 5


class Axis(NamedTuple):
    """What an axis spans and is called; `tell` writes the number at a tick."""

    low: float
    high: float
    label: str
    tell: Callable[[float], str] = "{:g}".format
    step: float | None = None
    """Distance of ticks; a round one without."""

    def ticks(self) -> list[float]:
        """Multiples of the step within the axis."""
        step = self.step or round_step((self.high - self.low) / _TICKS)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `least`; 1 where that is not positive."""
    if not least > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * k for k in (1, 2, 5, 10) if power * k >= least * (1 - 1e-9))


class Plot:
    """Marks are drawn in the order of the calls; `svg` puts axes below them."""

    def __init__(self, x: Axis, y: Axis, width: int = 420, height: int = 300, left: int = _LEFT) -> None:
        self.x, self.y = x, y
        self.width, self.height, self._left = width, height, left
        self._parts: list[str] = []

    def line(self, points: Iterable[Point], look: str) -> None:
        """A line through the points, if there are any; `look` is its class in the page."""
        if path := self._path(points):
            self._parts.append(f'<polyline class="{look}" points="{path}"/>')

    def steps(self, points: Sequence[Point], look: str) -> None:
        """A line that keeps its height until the next point."""
        corners = [corner for a, b in pairwise(points) for corner in (a, (b[0], a[1]))]
        self.line([*corners, *points[-1:]], look)

    def band(self, edges: Sequence[tuple[float, float, float]], look: str) -> None:
        """The area between two heights at each x: (x, low, high)."""
        around = [(x, high) for x, _, high in edges] + [(x, low) for x, low, _ in reversed(edges)]
        if around:
            self._parts.append(f'<polygon class="{look}" points="{self._path(around)}"/>')

    def dot(self, x: float, y: float, look: str, note: str = "", radius: float = 4.0) -> None:
        """A dot with a note that shows when it is pointed at."""
        self._parts.append(
            f'<circle class="{look}" cx="{self._h(x)}" cy="{self._v(y)}" r="{radius:.1f}">'
            f"<title>{escape(note)}</title></circle>"
        )

    def bar(self, x: Point, y: float, look: str, note: str = "") -> None:
        """A column from zero to `y` over the stretch `x`."""
        low, high = x
        top, floor = sorted((self._v(y), self._v(max(self.y.low, 0.0))))
        wide = max(self._h(high) - self._h(low) - 1.0, 1.0)
        self._parts.append(
            f'<rect class="{look}" x="{self._h(low)}" y="{top}" width="{wide:.1f}"'
            f' height="{floor - top:.1f}"><title>{escape(note)}</title></rect>'
        )

    def text(self, x: float, y: float, words: str, look: str = "note", anchor: str = "start") -> None:
        """Words at a place; dx of a few pixels keeps them off the mark."""
        shift = {"start": 4, "end": -4}.get(anchor, 0)
        self._parts.append(
            f'<text class="{look}" text-anchor="{anchor}" x="{self._h(x) + shift}"'
            f' y="{self._v(y) - 4}">{escape(words)}</text>'
        )

    def svg(self, title: str) -> str:
        """The whole picture."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
            f' role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
            f"{self._grid()}{''.join(self._parts)}</svg>"
        )

    def _grid(self) -> str:
        bottom, right = self.height - _BOTTOM, self.width - _RIGHT
        parts: list[str] = []
        for tick in self.x.ticks():
            at = self._h(tick)
            parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{_TOP}" y2="{bottom}"/>')
            parts.append(
                f'<text class="tick" text-anchor="middle" x="{at}" y="{bottom + 15}">'
                f"{escape(self.x.tell(tick))}</text>"
            )
        for tick in self.y.ticks():
            at = self._v(tick)
            parts.append(f'<line class="grid" x1="{self._left}" x2="{right}" y1="{at}" y2="{at}"/>')
            parts.append(
                f'<text class="tick" text-anchor="end" x="{self._left - 6}" y="{at + 4}">'
                f"{escape(self.y.tell(tick))}</text>"
            )
        middle = (self._left + right) / 2
        parts.append(
            f'<text class="axis" text-anchor="middle" x="{middle}" y="{self.height - 6}">'
            f"{escape(self.x.label)}</text>"
        )
        if self.y.label:
            parts.append(
                f'<text class="axis" text-anchor="middle" transform="rotate(-90)" x="{-(_TOP + bottom) / 2}"'
                f' y="12">{escape(self.y.label)}</text>'
            )
        return "".join(parts)

    def _path(self, points: Iterable[Point]) -> str:
        return " ".join(f"{self._h(x)},{self._v(y)}" for x, y in points)

    def _h(self, x: float) -> float:
        share = (min(max(x, self.x.low), self.x.high) - self.x.low) / ((self.x.high - self.x.low) or 1.0)
        return round(self._left + share * (self.width - self._left - _RIGHT), 1)

    def _v(self, y: float) -> float:
        share = (min(max(y, self.y.low), self.y.high) - self.y.low) / ((self.y.high - self.y.low) or 1.0)
        return round(self.height - _BOTTOM - share * (self.height - _BOTTOM - _TOP), 1)
