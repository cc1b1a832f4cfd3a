"""The moving picture of the README, docs/images/tiny.svg, from a run that was recorded as it happened.

    python docs/tools/terminal_cast.py record --stop-after 200 run.jsonl ratchet run tiny   # interrupted, as by Ctrl-C
    python docs/tools/terminal_cast.py record run.jsonl ratchet run tiny                     # the same command goes on
    python docs/tools/terminal_cast.py draw run.jsonl docs/images/tiny.svg

Times are the real ones, at the left of each line; only the waiting between lines is shortened. No script runs in the
picture, and it needs no font but a monospaced one.
"""

import argparse
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

COLUMNS, ROWS, CHARACTER, LINE = 104, 22, 7.3, 17
LONGEST_WAIT_S, WAIT_SHARE, HOLD_S = 0.9, 0.04, 5.0
COLORS = {"$": "#7aa2f7", "✓": "#9ece6a", "!": "#e0af68"}
DIM = "#7d869c"
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def record(file: Path, command: Sequence[str], stop_after: float | None) -> None:
    """Run the command and append a line of JSON for each line that it prints: seconds since its start, text."""
    with file.open("a") as out:
        started = time.monotonic()
        out.write(json.dumps({"at": 0.0, "text": f"$ {' '.join(command)}"}) + "\n")
        environment = os.environ | {"PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        if stop_after:
            threading.Timer(stop_after, lambda: process.send_signal(signal.SIGINT)).start()
        for line in process.stdout or ():
            print(line, end="", flush=True)
            out.write(json.dumps({"at": time.monotonic() - started, "text": line.rstrip()}) + "\n")
        process.wait()


def draw(file: Path, picture: Path) -> None:
    """One SVG in which the recorded lines appear one after the other, and scroll."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    home = str(Path.cwd())
    rows = [row | {"text": row["text"].replace(f"{home}/", "")} for row in rows if "%|" not in row["text"]]
    shown = [0.4]
    for before, row in pairwise(rows):
        waited = row["at"] - before["at"] if row["at"] >= before["at"] else 1.0  # the next command
        shown.append(shown[-1] + min(max(waited * WAIT_SHARE, 0.06), LONGEST_WAIT_S))
    whole = shown[-1] + HOLD_S
    percent = [f"{100 * moment / whole:.2f}%" for moment in shown]
    width, height = round(COLUMNS * CHARACTER) + 32, ROWS * LINE + 32
    last = max(len(rows) - ROWS, 0) * LINE
    style = [
        f"text{{font:12px {FONT};fill:#c8d0e0;white-space:pre}}",
        f"#all{{transform:translateY(-{last}px);animation:scroll {whole:.1f}s step-end infinite}}",
        "@keyframes scroll{0%{transform:none}",
        *(f"{at}{{transform:translateY(-{(n - ROWS + 1) * LINE}px)}}" for n, at in enumerate(percent) if n >= ROWS),
        "}",
        f".l{{animation-duration:{whole:.1f}s;animation-timing-function:step-end;animation-iteration-count:infinite}}",
        *(f"@keyframes k{n}{{0%{{opacity:0}}{at}{{opacity:1}}}}" for n, at in enumerate(percent)),
        "@media (prefers-reduced-motion:reduce){#all,.l{animation:none}}",
    ]
    lines = [_line(n, row["at"], row["text"]) for n, row in enumerate(rows)]
    picture.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>ratchet run tiny, recorded</title><style>{''.join(style)}</style>"
        f'<rect width="{width}" height="{height}" rx="10" fill="#1a1b26"/>'
        f'<svg x="16" y="12" width="{width - 32}" height="{ROWS * LINE + 6}"><g id="all">\n'
        + "\n".join(lines)
        + "\n</g></svg></svg>\n"
    )


def _line(number: int, at: float, text: str) -> str:
    color = COLORS.get(text[:1], DIM if text.startswith("…") or text.startswith("  ") else "")
    text = text if len(text) <= COLUMNS - 7 else text[: COLUMNS - 8] + "…"
    mark = f' fill="{color}" style="fill:{color}"' if color else ""
    return (
        f'<g class="l" style="animation-name:k{number}"><text y="{number * LINE + 13}" style="fill:{DIM}">'
        f'{int(at // 60)}:{at % 60:02.0f}</text><text x="44" y="{number * LINE + 13}"{mark}>{escape(text)}</text></g>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    actions = parser.add_subparsers(dest="action", required=True)
    recording, drawing = actions.add_parser("record"), actions.add_parser("draw")
    recording.add_argument("file", type=Path)
    recording.add_argument("--stop-after", type=float, metavar="SECONDS")
    recording.add_argument("command", nargs=argparse.REMAINDER)
    drawing.add_argument("file", type=Path)
    drawing.add_argument("picture", type=Path)
    given = parser.parse_args()
    if given.action == "record":
        record(given.file, given.command, given.stop_after)
    else:
        draw(given.file, given.picture)


if __name__ == "__main__":
    main()
