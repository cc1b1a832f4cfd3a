"""The README's picture from a recorded run: docs/tools/terminal_cast.py."""

import json
import runpy
import sys
import xml.etree.ElementTree as ET

from tests.docs.commands import ROOT

CAST = runpy.run_path(str(ROOT / "docs" / "tools" / "terminal_cast.py"))
SVG = "{http://www.w3.org/2000/svg}"


def test_what_a_command_printed_is_drawn_with_its_time(tmp_path):
    recording, picture = tmp_path / "run.jsonl", tmp_path / "run.svg"
    printed = "✓ rules <math>\n  train: 1/2, 3 s left\n✓ train"
    CAST["record"](recording, [sys.executable, "-c", f"print({printed!r})"], stop_after=None)
    rows = [json.loads(line) for line in recording.read_text().splitlines()]
    assert [row["text"] for row in rows[1:]] == printed.splitlines() and rows[0]["text"].startswith("$ ")
    CAST["draw"](recording, picture)
    lines = ET.parse(picture).getroot().findall(f".//{SVG}g[@class]")
    assert ["".join(line.itertext())[4:] for line in lines][1:] == printed.splitlines()
    places = [line.find(f"{SVG}text").get("y") for line in lines]
    assert places[2] == places[3] != places[1]  # what goes on stands where its end then stands


def test_the_picture_of_the_readme_is_small_and_whole():
    picture = ROOT / "docs" / "images" / "tiny.svg"
    text = "".join(ET.parse(picture).getroot().itertext())
    assert picture.stat().st_size < 60_000 and "Stopped." in text and "artifact report/tiny-" in text
