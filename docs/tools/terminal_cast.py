"""The moving picture of the README, docs/images/tiny.svg, from a run that was recorded as it happened.

    show() { echo "$ $*"; "$@" 2>&1; }                                # `ts` is in moreutils; a line each, with its time
    show timeout --signal=INT 75 ratchet run tiny | ts -s %.s > run.txt
    show ratchet run tiny | ts -s %.s >> run.txt                      # the same command goes on
    python docs/tools/terminal_cast.py run.txt docs/images/tiny.svg

Times are the real ones, at the left of each line; only the waiting between lines is shortened. No script runs in the
picture, and it needs no font but a monospaced one.
"""

import re
import sys
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

COLUMNS, ROWS, CHARACTER, LINE = 104, 22, 7.3, 17
LONGEST_WAIT_S, WAIT_SHARE, NEXT_COMMAND_S, HOLD_S = 0.9, 0.03, 0.9, 6.0
PASSING = re.compile(r"…|  \S.*: [\d,]+/[\d,]+, ")
COLORS = {"$": "#7aa2f7", "✓": "#9ece6a", "!": "#e0af68"}
DIM = "#7d869c"
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def draw(file: Path, picture: Path) -> None:
    """One SVG in which the recorded lines appear one after the other, and scroll. A line about work that goes on stands
    in its place until the next one comes, as in a terminal."""
    stamped = (line.partition(" ") for line in file.read_text().splitlines())
    rows = [{"at": float(at), "text": text.replace(f"{file.resolve().parent}/", "")} for at, _, text in stamped]
    moments = [0.0]
    for before, row in pairwise(rows):
        waited = (row["at"] - before["at"]) * WAIT_SHARE if row["at"] >= before["at"] else NEXT_COMMAND_S
        moments.append(moments[-1] + min(max(waited, 0.05), LONGEST_WAIT_S))
    whole = moments[-1] + HOLD_S
    shown, scrolls, place = list[str](), list[str](), 0
    for n, (row, moment) in enumerate(zip(rows, moments, strict=True)):
        passing, at = bool(PASSING.match(row["text"])), f"{100 * moment / whole:.2f}%"
        until = f"{100 * moments[n + 1] / whole:.2f}%{{opacity:0}}" if passing and n + 1 < len(rows) else ""
        shown.append(f"@keyframes k{n}{{0%{{opacity:0}}{at}{{opacity:1}}{until}}}")
        if place >= ROWS:
            scrolls.append(f"{at}{{transform:translateY(-{(place - ROWS + 1) * LINE}px)}}")
        row["place"], row["passing"] = place, passing
        place += not passing
    # It opens where the screen is full, and then begins again with the first line.
    opening = next((moment for row, moment in zip(rows, moments, strict=True) if row["place"] >= ROWS - 1), 0.0)
    last, runs = max(place - ROWS, 0) * LINE, f"{whole:.1f}s step-end infinite"
    style = [
        f"text{{font:12px {FONT};fill:#c8d0e0;white-space:pre}}",
        f"#all{{transform:translateY(-{last}px);animation:scroll {runs}}}.l{{animation:{runs}}}.p{{opacity:0}}",
        f"#all,.l{{animation-delay:-{opening:.1f}s}}",
        f"@keyframes scroll{{0%{{transform:none}}{''.join(scrolls)}}}",
        *shown,
        "@media (prefers-reduced-motion:reduce){#all,.l{animation:none!important}}",
    ]
    width, height = round(COLUMNS * CHARACTER) + 32, ROWS * LINE + 32
    lines = [_line(number, row) for number, row in enumerate(rows) if row["text"]]
    picture.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>ratchet run tiny, recorded</title><style>{''.join(style)}</style>"
        f'<rect width="{width}" height="{height}" rx="10" fill="#1a1b26"/>'
        f'<svg x="16" y="12" width="{width - 32}" height="{ROWS * LINE + 6}"><g id="all">\n'
        + "\n".join(lines)
        + "\n</g></svg></svg>\n"
    )


def _line(number: int, row: dict[str, Any]) -> str:
    text, y = row["text"], row["place"] * LINE + 13
    text = text if len(text) <= COLUMNS - 7 else text[: COLUMNS - 8] + "…"
    time_ = f"{int(row['at'] // 60)}:{int(row['at'] % 60):02}"
    words = escape(text)
    if row["passing"]:
        words = f'<tspan style="fill:{DIM}">{words}</tspan>'
    elif color := COLORS.get(text[:1]):
        words = f'<tspan style="fill:{color}">{words[0]}</tspan>{words[1:]}'
    return (
        f'<g class="l{" p" if row["passing"] else ""}" style="animation-name:k{number}">'
        f'<text y="{y}" style="fill:{DIM}">{time_}</text><text x="44" y="{y}">{words}</text></g>'
    )


if __name__ == "__main__":
    draw(*map(Path, sys.argv[1:]))
