"""The plots of the docs, as SVG written by hand: bars of systems beside each other, and curves over a load."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH = 760
FONT = 'font-family="system-ui, sans-serif" font-size="13"'
OURS, THEIRS, INK, LINE = "#1f8f5f", "#9aa7b2", "#1c2630", "#dde3e8"
COLOURS = {"memory": "#7a8794", "commit": OURS, "naive": "#c2502e"}


@dataclass(frozen=True)
class Bar:
    """One system."""

    name: str
    value: float
    spread: float
    is_ours: bool


@dataclass(frozen=True)
class Curve:
    """One line: (across, up), both above 0."""

    name: str
    colour: str
    is_dashed: bool
    points: Sequence[tuple[float, float]]


def bars(title: str, unit: str, drawn: Sequence[Bar]) -> str:
    """A bar for each system, from zero, with its spread as a thin line."""
    left, right, row, top = 160, 90, 28, 40
    height = top + row * len(drawn) + 12
    longest = max((bar.value + bar.spread / 2 for bar in drawn), default=1.0) or 1.0
    lines = [*_head(height, title, left=12)]
    for number, bar in enumerate(drawn):
        y = top + number * row
        width = bar.value / longest * (WIDTH - left - right)
        reach = bar.spread / 2 / longest * (WIDTH - left - right)
        end = left + width + reach
        weight, colour = (' font-weight="600"', OURS) if bar.is_ours else ("", THEIRS)
        lines += [
            f'<text x="{left - 8}" y="{y + 14}" text-anchor="end"{weight}>{escape(bar.name)}</text>',
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="20" rx="2" fill="{colour}"/>',
            f'<line x1="{max(left, left + width - reach):.1f}" x2="{end:.1f}" y1="{y + 10}"'
            f' y2="{y + 10}" stroke="{INK}"/>',
            f'<text x="{end + 8:.1f}" y="{y + 14}"{weight}>{number_of(bar.value)} {escape(unit)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def number_of(value: float) -> str:
    """Three digits, or all of a large number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def curves(title: str, across: str, unit: str, drawn: Sequence[Curve], file: str) -> None:
    """Lines on two logarithmic axes, written to a file."""
    Path(file).write_text(_curves(title, across, unit, [curve for curve in drawn if curve.points]), encoding="utf-8")


def _curves(title: str, across: str, unit: str, drawn: Sequence[Curve]) -> str:
    height, left, right, top, bottom = 420, 70, 210, 30, 55
    xs = [x for curve in drawn for x, _ in curve.points]
    ys = [y for curve in drawn for _, y in curve.points]
    low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    x_span = max(math.log10(max(xs)) - math.log10(min(xs)), 1e-9)

    def at(x: float) -> float:
        return left + (math.log10(x) - math.log10(min(xs))) / x_span * (WIDTH - left - right)

    def up(y: float) -> float:
        return height - bottom - (math.log10(y) - low) / max(high - low, 1) * (height - top - bottom)

    lines = _head(height, title, left)
    for power in range(low, high + 1):
        y = up(10.0**power)
        lines.append(f'<line x1="{left}" x2="{WIDTH - right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{LINE}"/>')
        lines.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} {escape(unit)}</text>')
    for x in sorted({float(f"{x:.1g}") for x in xs}):
        shown = max(x, min(xs))
        lines.append(f'<text x="{at(shown):.1f}" y="{height - bottom + 20}" text-anchor="middle">{x:,.0f}</text>')
    middle = (left + WIDTH - right) / 2
    lines.append(f'<text x="{middle:.0f}" y="{height - 12}" text-anchor="middle">{escape(across)}</text>')
    for row, curve in enumerate(drawn):
        stroke = f'stroke="{COLOURS[curve.colour]}" stroke-width="2"' + (
            ' stroke-dasharray="5 4"' if curve.is_dashed else ""
        )
        path = " ".join(f"{at(x):.1f},{up(y):.1f}" for x, y in curve.points)
        y, begin = top + 20 + row * 22, WIDTH - right + 18
        lines += [
            f'<polyline points="{path}" fill="none" {stroke}/>',
            f'<line x1="{begin}" x2="{begin + 28}" y1="{y}" y2="{y}" {stroke}/>',
            f'<text x="{begin + 34}" y="{y + 4}">{escape(curve.name)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _head(height: int, title: str, left: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="20" font-weight="600">{escape(title)}</text>',
    ]
