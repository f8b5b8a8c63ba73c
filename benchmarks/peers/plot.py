"""A picture of the results: the share of the peak over the length of the sequence."""

import math
from dataclasses import dataclass
from html import escape

from peers import TITLES
from report import count, share

HEAD_DIM = 128
# What stands in the rows of panels; full and causal are the columns.
PANELS = [("f32", "forward"), ("bf16", "forward"), ("f32", "backward")]
# Okabe and Ito's colours, which the colour-blind can tell apart; jhalak's line is also wider.
COLOURS = {
    "jhalak": "#d55e00",
    "torch": "#0072b2",
    "torch-math": "#56b4e9",
    "onnx": "#009e73",
    "zentorch": "#cc79a7",
    "candle": "#767676",
}
WIDTH, PANEL_WIDTH, PANEL_HEIGHT = 960, 390, 210
LEFT, TOP, GAP_X, GAP_Y = 76, 126, 62, 78


@dataclass(frozen=True)
class Panel:
    """One pair of axes: lengths on a logarithmic one, shares on the other."""

    left: float
    top: float
    lengths: list[int]
    highest: float

    def x(self, seqlen: int) -> float:
        first, last = math.log2(self.lengths[0]), math.log2(self.lengths[-1])
        place = (math.log2(seqlen) - first) / (last - first) if last > first else 0.5
        return self.left + 14 + place * (PANEL_WIDTH - 28)

    def y(self, part: float) -> float:
        return self.top + PANEL_HEIGHT * (1 - part / self.highest)


def plot(results: dict, threads: int) -> str | None:
    """An SVG picture for this number of threads, or None where it would be empty."""
    rows = [
        row
        for row in results["rows"]
        if row["threads"] == threads
        and row["head_dim"] == HEAD_DIM
        and row["heads"] == row["heads_k"]
        and (row["dtype"], row["direction"]) in PANELS
    ]
    ceilings = results["ceilings"]
    shares = [
        part for row in rows for peer in row["results"] if (part := share(row, peer, ceilings))
    ]
    if not shares:
        return None
    lengths = sorted({row["seqlen"] for row in rows})
    kinds = [kind for kind in PANELS if any(is_of(row, kind) for row in rows)]
    # Up to the next fifth.
    highest = max(1.0, math.ceil(5 * max(shares)) / 5)
    height = TOP + len(kinds) * (PANEL_HEIGHT + GAP_Y)
    parts = [head(height), title(results, threads)]
    for down, kind in enumerate(kinds):
        for across, causal in enumerate([False, True]):
            left = LEFT + across * (PANEL_WIDTH + GAP_X)
            panel = Panel(left, TOP + down * (PANEL_HEIGHT + GAP_Y), lengths, highest)
            some = [row for row in rows if is_of(row, kind) and row["causal"] == causal]
            parts += axes(panel, f"{kind[0]} {kind[1]}, {'causal' if causal else 'full'}")
            parts += lines(panel, some, ceilings)
    peers = [peer for peer in TITLES if any(share(row, peer, ceilings) for row in rows)]
    parts += legend(peers)
    return "\n".join([*parts, "</svg>"]) + "\n"


def is_of(row: dict, kind: tuple[str, str]) -> bool:
    return (row["dtype"], row["direction"]) == kind


def head(height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="Helvetica, Arial, sans-serif" font-size="13" '
        f'fill="#222">\n<rect width="100%" height="100%" fill="#fff"/>'
    )


def text(x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{escape(words)}</text>'


def title(results: dict, threads: int) -> str:
    machine = results["machine"]
    where = (
        f"{machine['cpu']} (family {machine['family']}, model {machine['model']}), "
        f"{count(threads)}, {machine['date'][:10]}; D = {HEAD_DIM}, 100 % = the most "
        "multiply-adds measured"
    )
    large, small = 'font-size="18" font-weight="bold"', 'fill="#555"'
    return "\n".join(
        [
            text(LEFT, 34, "Attention on the CPU: share of its peak", "start", large),
            text(LEFT, 56, where, "start", small),
        ]
    )


def axes(panel: Panel, name: str) -> list[str]:
    right, bottom = panel.left + PANEL_WIDTH, panel.top + PANEL_HEIGHT
    parts = [text(panel.left, panel.top - 10, name, "start", 'font-weight="bold"')]
    for fifth in range(round(5 * panel.highest) + 1):
        y = panel.y(fifth / 5)
        colour = "#888" if fifth in (0, 5) else "#ddd"
        parts.append(f'<path d="M{panel.left} {y:.1f}H{right}" stroke="{colour}"/>')
        parts.append(text(panel.left - 8, y + 4, f"{20 * fifth} %", "end"))
    for seqlen in panel.lengths:
        x = panel.x(seqlen)
        parts.append(f'<path d="M{x:.1f} {bottom}v5" stroke="#888"/>')
        parts.append(text(x, bottom + 19, str(seqlen)))
    parts.append(text(panel.left + PANEL_WIDTH / 2, bottom + 37, "sequence length"))
    if panel.left == LEFT:
        x, y = LEFT - 54, panel.top + PANEL_HEIGHT / 2
        turned = f'transform="rotate(-90 {x:.1f} {y:.1f})"'
        parts.append(text(x, y, "share of the peak", more=turned))
    return parts


def lines(panel: Panel, rows: list[dict], ceilings: dict) -> list[str]:
    """A line for each peer, jhalak's last and so on top."""
    parts = []
    for peer in reversed(TITLES):
        points = [
            (panel.x(row["seqlen"]), panel.y(part), row["results"][peer]["clean_samples"])
            for row in sorted(rows, key=lambda row: row["seqlen"])
            if (part := share(row, peer, ceilings)) is not None
        ]
        if not points:
            continue
        colour, width = COLOURS[peer], line_width(peer)
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts += [dot(x, y, peer, hollow=not clean) for x, y, clean in points]
    return parts


def line_width(peer: str) -> float:
    return 3 if peer == "jhalak" else 1.8


def dot(x: float, y: float, peer: str, hollow: bool = False) -> str:
    colour, radius = COLOURS[peer], line_width(peer) + 0.7
    fill = f'fill="#fff" stroke="{colour}" stroke-width="1.2"' if hollow else f'fill="{colour}"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {fill}/>'


def legend(peers: list[str]) -> list[str]:
    parts = []
    x = float(LEFT)
    for peer in peers:
        look = f'stroke="{COLOURS[peer]}" stroke-width="{line_width(peer)}"'
        parts.append(f'<path d="M{x:.1f} 78h26" {look}/>')
        parts.append(dot(x + 13, 78, peer))
        parts.append(text(x + 33, 82, TITLES[peer], "start"))
        x += 60 + 7.2 * len(TITLES[peer])
    return parts
