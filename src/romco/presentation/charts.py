"""Charts as inline SVG: they follow the colours of the page, dark ones too, and need no file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from math import ceil, floor, log2, log10

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 44  # margins around the axes
AXIS_NUMBER, AXIS_PERCENT = ".3g", ".0%"
Position = Callable[[float, float], tuple[float, float]]  # data to SVG coordinates
CLASSES = ("soft", "own", "shared")  # styles of lines, see presentation.page


@dataclass(frozen=True)
class Line:
    """One line of a chart: points (x, y) from left to right."""

    title: str
    points: Sequence[tuple[float, float]]


def line_chart(lines: Sequence[Line], x_title: str, y_title: str) -> str:
    """Draw lines over a logarithmic x axis, with a legend.

    >>> chart = line_chart([Line("a", [(1, 0.5), (8, 0.25)])], "events", "error")
    >>> chart.count("<polyline"), "events" in chart
    (1, True)
    """
    points = list(chain.from_iterable(line.points for line in lines))
    if not points:
        return ""
    across, heights = zip(*points, strict=True)
    right = max(2.0, *across)
    low, high, step = _nice(min(heights), max(heights))

    def position(x: float, y: float) -> tuple[float, float]:
        right_by = (WIDTH - LEFT - RIGHT) * log2(max(x, 1.0)) / log2(right)
        up_by = (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)
        return LEFT + right_by, HEIGHT - BOTTOM - up_by

    parts = [*_y_axis(low, high, step, position), *_x_axis(right, position)]
    for style, line in zip(CLASSES, lines, strict=False):
        at = [position(x, y) for x, y in line.points]
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline class="line {style}" points="{drawn}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 6, x_title, "middle"))
    legend = "".join(
        f'<span><svg width="26" height="10"><line class="line {style}" x1="1" x2="25" y1="5" '
        f'y2="5"/></svg> {escape(line.title)}</span>'
        for style, line in zip(CLASSES, lines, strict=False)
    )
    return (
        f'<figure class="chart"><figcaption>{escape(y_title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(y_title)}">'
        f'{"".join(parts)}</svg><div class="legend">{legend}</div></figure>'
    )


def bars(
    values: Sequence[tuple[str, float]],
    title: str,
    height: int = 90,
    top: float | None = None,
    percent: bool = False,
) -> str:
    """Draw bars from 0 to ``top`` (None: the largest), with names and values as tooltips."""
    top = top or max((value for _, value in values), default=0.0) or 1.0
    form = ".1%" if percent else ".4g"
    width = max(4.0, min(18.0, (WIDTH - 20) / max(len(values), 1)))
    drawn = "".join(
        f'<rect class="shared" x="{width * k:.1f}" y="{height - height * value / top:.1f}" '
        f'width="{0.8 * width:.1f}" height="{height * value / top:.1f}">'
        f"<title>{escape(name)}: {value:{form}}</title></rect>"
        for k, (name, value) in enumerate(values)
    )
    across = max(width * len(values), 60.0)
    axis = "".join(
        f'<line class="grid" x1="0" x2="{across:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        + _text(-6, y + 4, f"{value:{AXIS_PERCENT if percent else AXIS_NUMBER}}", "end")
        for value, y in ((0.0, float(height)), (top / 2, height / 2), (top, 0.0))
    )
    size = f'viewBox="-{LEFT} -8 {across + LEFT:.0f} {height + 16}"'
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg {size} style="max-width: {across + LEFT:.0f}px" role="img" '
        f'aria-label="{escape(title)}">{axis}{drawn}</svg></figure>'
    )


def _nice(low: float, high: float) -> tuple[float, float, float]:
    """Range and step of an axis with about four round marks."""
    spread = max(high - low, 1e-12 + 0.1 * abs(high))
    raw = spread / 4
    unit = 10.0 ** floor(log10(raw))
    step = next(unit * k for k in (1.0, 2.0, 2.5, 5.0, 10.0) if unit * k >= raw)
    lowest = min(low, 0.0)
    first = floor(max(low - 0.02 * spread, lowest) / step) * step
    return first, first + ceil((high - first) / step) * step, step


def _y_axis(low: float, high: float, step: float, position: Position) -> list[str]:
    parts = []
    for k in range(round((high - low) / step) + 1):
        _, y = position(1.0, low + k * step)
        line = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
        text = _text(LEFT - 8, y + 4, f"{low + k * step:.4g}", "end")
        parts.append(f'<line class="grid" {line}/>{text}')
    return parts


def _x_axis(right: float, position: Position) -> list[str]:
    marks = [10**k for k in range(0, int(log10(right)) + 1)]
    if len(marks) <= 2:
        marks = [2**k for k in range(0, int(log2(right)) + 1)]
    parts = []
    bottom = HEIGHT - BOTTOM
    for mark in marks:
        x, _ = position(float(mark), 0.0)
        line = f'x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"'
        parts.append(f'<line class="grid" {line}/>{_text(x, bottom + 20, f"{mark:,}", "middle")}')
    return parts


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
