"""Charts as inline SVG: they follow the colours of the page, dark ones too, and need no file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain, starmap
from math import ceil, floor, log2, log10
from operator import attrgetter

from romco.presentation.screen import spell_number

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 14, 44  # margins around the axes
MAP_LEFT = 96  # room for the values of the rows of a map
MAX_LABELS = 5  # of an axis of a map
BAR_HEIGHT = 140
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
    points = _points(lines)
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
        parts.append(f'<polyline class="line {style}" points="{_path(line.points, position)}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 6, x_title, "middle"))
    legend = _legend(list(zip(CLASSES, lines, strict=False)))
    return _figure(y_title, "".join(parts), legend)


def curve_chart(
    line: Line, band: Sequence[tuple[float, float]], others: Sequence[Line], marks: Sequence[float]
) -> str:
    """Draw a curve with a band (low and high of each point), others beside it, marks on the x axis.

    The title of ``line`` is that of the chart; others are named in a legend.

    >>> chart = curve_chart(Line("age", [(1, 0.5), (8, 0.25)]), [(0, 1), (0, 1)], [], [2, 4])
    >>> chart.count("<polyline"), chart.count("<polygon"), chart.count('class="mark"')
    (1, 1, 2)
    """
    lines = [line, *others]
    across, _ = zip(*line.points, strict=True)
    left, right = across[0], across[-1]
    bottoms, tops = zip(*band, strict=True)
    _, heights = zip(*_points(lines), strict=True)
    lowest = min(0.0, *bottoms, *heights)
    low, high, step = _nice(lowest, max(0.0, *tops, *heights))

    def position(x: float, y: float) -> tuple[float, float]:
        right_by = (WIDTH - LEFT - RIGHT) * (x - left) / (right - left or 1.0)
        up_by = (HEIGHT - TOP - BOTTOM) * (y - low) / (high - low)
        return LEFT + right_by, HEIGHT - BOTTOM - up_by

    edge = [*zip(across, bottoms, strict=True), *zip(across[::-1], tops[::-1], strict=True)]
    parts = [*_y_axis(low, high, step, position), *_value_axis(left, right, position)]
    parts.append(f'<polygon class="band" points="{_path(edge, position)}"/>')
    styles = ("shared", *(f"own own-{k}" for k in range(len(others))))
    for style, one in reversed(list(zip(styles, lines, strict=True))):
        parts.append(f'<polyline class="line {style}" points="{_path(one.points, position)}"/>')
    for mark in marks:
        x, bottom = position(mark, low)
        at = f'x1="{x:.1f}" x2="{x:.1f}" y1="{bottom - 9:.1f}" y2="{bottom:.1f}"'
        parts.append(f'<line class="mark" {at}/>')
    legend = _legend(list(zip(styles, lines, strict=True))[1:])
    return _figure(line.title, "".join(parts), legend)


def heat_map(
    title: str,
    axes: tuple[str, str],
    columns: Sequence[str],
    rows: Sequence[str],
    values: Sequence[Sequence[float]],
) -> str:
    """Draw a map: a cell for each column and row, blue above 0, orange below; the last row on top.

    >>> chart = heat_map("both", ("a", "b"), ["1", "2"], ["x"], [[0.5, -1.0]])
    >>> chart.count("<title"), "a 2, b x: -1" in chart
    (2, True)
    """
    largest = max(map(abs, chain.from_iterable(values)), default=0.0) or 1.0
    width = (WIDTH - MAP_LEFT - RIGHT) / len(columns)
    height = (HEIGHT - TOP - BOTTOM) / len(rows)
    parts = []
    for k, row in enumerate(values):
        y = HEIGHT - BOTTOM - height * (k + 1)
        for i, value in enumerate(row):
            style = "shared" if value > 0.0 else "own"
            where = f'x="{MAP_LEFT + width * i:.1f}" y="{y:.1f}"'
            size = f'width="{width:.1f}" height="{height:.1f}"'
            told = f"{axes[0]} {columns[i]}, {axes[1]} {rows[k]}: {value:+.3g}"
            parts.append(
                f'<rect class="{style}" fill-opacity="{abs(value) / largest:.2f}" {where} {size}>'
                f"<title>{escape(told)}</title></rect>"
            )
    for i in _some(len(columns)):
        middle = MAP_LEFT + width * (i + 0.5)
        parts.append(_text(middle, HEIGHT - BOTTOM + 20, columns[i], "middle"))
    for k in _some(len(rows)):
        parts.append(_text(MAP_LEFT - 8, HEIGHT - BOTTOM - height * (k + 0.5) + 5, rows[k], "end"))
    size = f'width="{WIDTH - MAP_LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    parts.append(f'<rect class="frame" x="{MAP_LEFT}" y="{TOP}" {size}/>')
    across, up = map(escape, axes)
    legend = (
        f'<div class="legend"><span>&#8594; {across}, &#8593; {up}</span>'
        f'<span><span class="swatch own"></span> {-largest:+.2g}</span>'
        f'<span><span class="swatch shared"></span> {largest:+.2g}</span></div>'
    )
    return _figure(title, "".join(parts), legend)


def bars(shares: Sequence[tuple[str, float]], title: str) -> str:
    """Draw shares from 0 to 1 as bars, with names and percents as tooltips."""
    width = max(4.0, min(18.0, (WIDTH - 20) / len(shares)))
    across = max(width * len(shares), 60.0)
    drawn = ""
    for mark in (0.0, 0.5, 1.0):
        y = BAR_HEIGHT * (1.0 - mark)
        drawn += f'<line class="grid" x1="0" x2="{across:.0f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        drawn += _text(-6, y + 4, f"{mark:.0%}", "end")
    for k, (name, share) in enumerate(shares):
        size = BAR_HEIGHT * share
        drawn += (
            f'<rect class="shared" x="{width * k:.1f}" y="{BAR_HEIGHT - size:.1f}" '
            f'width="{0.8 * width:.1f}" height="{size:.1f}">'
            f"<title>{escape(name)}: {share:.0%}</title></rect>"
        )
    box = f'viewBox="-{LEFT} -14 {across + LEFT:.0f} {BAR_HEIGHT + 22}"'
    style = "chart"
    if across + LEFT < 0.7 * WIDTH:
        style = "chart small"  # a phone does not shrink it
    return (
        f'<figure class="{style}"><figcaption>{escape(title)}</figcaption>'
        f'<svg {box} style="max-width: {across + LEFT:.0f}px" role="img" '
        f'aria-label="{escape(title)}">{drawn}</svg></figure>'
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
        text = _text(LEFT - 8, y + 4, spell_number(low + k * step), "end")
        parts.append(f'<line class="grid" {line}/>{text}')
    return parts


def _x_axis(right: float, position: Position) -> list[str]:
    base, last = 10, int(log10(right))
    if last <= 1:
        base, last = 2, int(log2(right))
    parts = []
    bottom = HEIGHT - BOTTOM
    for power in range(last + 1):
        mark = base**power
        x, _ = position(float(mark), 0.0)
        line = f'x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"'
        parts.append(f'<line class="grid" {line}/>{_text(x, bottom + 20, f"{mark:,}", "middle")}')
    return parts


def _value_axis(left: float, right: float, position: Position) -> list[str]:
    """Return about four round marks of a linear x axis."""
    *_, step = _nice(0.0, right - left)
    parts = []
    bottom = HEIGHT - BOTTOM
    for k in range(ceil(left / step), floor(right / step * (1.0 + 1e-12)) + 1):
        x, _ = position(k * step, 0.0)
        parts.append(_text(x, bottom + 20, spell_number(k * step), "middle"))
    return parts


def _some(n: int) -> list[int]:
    """Return at most five of n places, evenly spaced, the first and the last among them."""
    if n <= MAX_LABELS:
        return list(range(n))
    return [round(k * (n - 1) / (MAX_LABELS - 1)) for k in range(MAX_LABELS)]


def _points(lines: Sequence[Line]) -> list[tuple[float, float]]:
    """Return the points of all lines."""
    return list(chain.from_iterable(map(attrgetter("points"), lines)))


def _path(points: Sequence[tuple[float, float]], position: Position) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in starmap(position, points))


def _legend(lines: Sequence[tuple[str, Line]]) -> str:
    """Return the names of lines beside their styles."""
    names = ""
    for style, line in lines:
        names += (
            f'<span><svg width="26" height="10"><line class="line {style}" x1="1" x2="25" y1="5" '
            f'y2="5"/></svg> {escape(line.title)}</span>'
        )
    return f'<div class="legend">{names}</div>'


def _figure(title: str, drawn: str, legend: str) -> str:
    """Return a chart with a title above and a legend below."""
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{drawn}</svg>{legend}</figure>"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
