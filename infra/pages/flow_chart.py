"""A graph as one SVG to look at and click on: boxes in bands from top to bottom, in each band side by side in lanes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import escape

from ratchet.infra.pages import DROPPED, FIRST, INK, LAST, MUTED

WIDTH, LINE, PADDING, GAP, ROW_GAP, HEADING = 212, 15, 9, 14, 26, 26
"""Pixels."""
CHARACTERS = 32
"""Of a line that fits into a box, at 11 pixels."""
IN_A_ROW = 2
"""Boxes of one lane."""
FACES = "Inter, 'Segoe UI', 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Box:
    key: str
    title: str
    lines: Sequence[str]
    band: str
    lane: str
    parents: Sequence[str]
    """Keys; of boxes that are not in the chart, they are left out."""
    link: str = ""
    hint: str = ""
    share: float | None = None
    """What of its rows a step has kept."""
    faded: bool = False

    @property
    def height(self) -> int:
        return 2 * PADDING + LINE * (1 + len(self.lines))


def flow_chart(boxes: Sequence[Box], label: str) -> str:
    """`boxes` with parents before children. An edge is left out where a longer way leads to the same box."""
    parents = _direct(boxes)
    depth: dict[str, int] = {}
    for box in boxes:
        depth[box.key] = 1 + max((depth[parent] for parent in parents[box.key]), default=-1)
    read_at = {parent: depth[box.key] for box in reversed(boxes) for parent in parents[box.key]}
    places, headings, width, height = _laid_out(boxes, depth, read_at)
    at = {box.key: (x, y, box) for x, y, box in places}
    edges = [_edge(*at[parent], *at[box.key][:2], places) for box in boxes for parent in parents[box.key]]
    parts = [*edges, *(_heading(*heading) for heading in headings), *(_box(*place) for place in places)]
    return (
        # An image needs a width and a height, or MLflow shows it as nothing; in a page it is not too small to be read.
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'style="max-width:{width}px;min-width:{width * 3 // 4}px;height:auto" '
        f'role="img" aria-label="{escape(label)}" font-family="{FACES}" font-size="11" fill="{INK}">'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>'
    )


def _direct(boxes: Sequence[Box]) -> dict[str, list[str]]:
    behind: dict[str, set[str]] = {}
    direct: dict[str, list[str]] = {}
    for box in boxes:
        known = [parent for parent in dict.fromkeys(box.parents) if parent in behind and parent != box.key]
        further = set[str]().union(*(behind[parent] for parent in known))
        direct[box.key] = [parent for parent in known if parent not in further]
        behind[box.key] = further.union(known)
    return direct


def _laid_out(
    boxes: Sequence[Box], depth: Mapping[str, int], read_at: Mapping[str, int]
) -> tuple[list[tuple[int, int, Box]], list[tuple[int, int, str]], int, int]:
    """(x, y, box) of each, (x, y, words) of the headings, width and height of all. Of those side by side, the one that
    is read sooner is left: its edge crosses nothing."""
    places, headings, width, y = [], [], WIDTH, 0
    for band in dict.fromkeys(box.band for box in boxes):
        cells: dict[str, dict[int, list[Box]]] = defaultdict(lambda: defaultdict(list))
        for box in boxes:
            if box.band == band:
                cells[box.lane][depth[box.key]].append(box)
        x, left = GAP, {}
        for lane, rows in cells.items():
            headings.append((x, y + HEADING - 8, lane or band))
            left[lane] = x
            x += min(IN_A_ROW, max(map(len, rows.values()))) * (WIDTH + GAP) + GAP
        width, y = max(width, x - GAP), y + HEADING
        for row in sorted({row for rows in cells.values() for row in rows}):
            lowest = y
            for lane, rows in cells.items():
                below = y
                here = sorted(rows.get(row, []), key=lambda box: read_at.get(box.key, 0))
                for side_by_side in (here[i : i + IN_A_ROW] for i in range(0, len(here), IN_A_ROW)):
                    places += [(left[lane] + i * (WIDTH + GAP), below, box) for i, box in enumerate(side_by_side)]
                    below += max(box.height for box in side_by_side) + GAP
                lowest = max(lowest, below - GAP)
            y = lowest + ROW_GAP
    return places, headings, width, y


def _heading(x: int, y: int, words: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="12" font-weight="bold" fill="{MUTED}">{escape(words)}</text>'


def _edge(x: int, y: int, box: Box, to_x: int, to_y: int, places: Sequence[tuple[int, int, Box]]) -> str:
    """From the bottom of the upper box to the top of the lower one, below the upper one where no box is in the way."""
    begin, top, end, low = x + WIDTH // 2, y + box.height, to_x + WIDTH // 2, to_y - ROW_GAP
    if any(each_x == x and top < each_y < to_y for each_x, each_y, _ in places):
        curve = f"M{begin} {top}C{begin} {top + ROW_GAP} {end} {top} {end} {top + ROW_GAP}V{to_y}"
    else:
        curve = f"M{begin} {top}V{low}C{begin} {to_y} {end} {low} {end} {to_y}"
    return f'<path d="{curve}" fill="none" stroke="{FIRST}" stroke-width="1.2"/>'


def _box(x: int, y: int, box: Box) -> str:
    drawn = "".join(_inside(box))
    dashes = ' stroke-dasharray="4 3"' if box.faded else ""
    frame = f'<rect width="{WIDTH}" height="{box.height}" rx="6" fill="#fff" stroke="{FIRST}"{dashes}/>'
    inner = f'<g transform="translate({x} {y})"><title>{escape(box.hint)}</title>{frame}{drawn}</g>'
    return f'<a href="{escape(box.link)}" target="_blank">{inner}</a>' if box.link else inner


def _inside(box: Box) -> Iterator[str]:
    color = LAST if box.link else INK
    yield (
        f'<text x="{PADDING}" y="{PADDING + 11}" font-size="12" font-weight="bold" fill="{color}">'
        f"{escape(_fitted(box.title, CHARACTERS - 3))}</text>"
    )
    for number, line in enumerate(box.lines, 1):
        y = PADDING + 11 + number * LINE
        yield f'<text x="{PADDING}" y="{y}" fill="{MUTED}">{escape(_fitted(line, CHARACTERS))}</text>'
    if box.share is not None:
        kept = round(box.share * (WIDTH - 2 * PADDING))
        y = box.height - 5
        yield f'<rect x="{PADDING}" y="{y}" width="{WIDTH - 2 * PADDING}" height="3" fill="{DROPPED}"/>'
        yield f'<rect x="{PADDING}" y="{y}" width="{kept}" height="3" fill="{LAST}"/>'


def _fitted(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
