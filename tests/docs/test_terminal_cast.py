"""The README's picture from a recorded run: docs/tools/terminal_cast.py."""

import runpy
import xml.etree.ElementTree as ET

from tests.docs.commands import ROOT

CAST = runpy.run_path(str(ROOT / "docs" / "tools" / "terminal_cast.py"))
SVG = "{http://www.w3.org/2000/svg}"


def test_what_a_command_printed_is_drawn_with_its_time(tmp_path):
    recording, picture = tmp_path / "run.txt", tmp_path / "run.svg"
    printed = ["$ ratchet run tiny", "✓ rules <math>", "  train: 1/2, 3 s left", "✓ train"]
    recording.write_text("".join(f"{60.5 * n:.6f} {line}\n" for n, line in enumerate(printed)))
    CAST["draw"](recording, picture)
    lines = ET.parse(picture).getroot().findall(f".//{SVG}g[@class]")
    assert ["".join(line.itertext()) for line in lines] == [
        f"{time}{line}" for time, line in zip(("0:00", "1:00", "2:01", "3:01"), printed, strict=True)
    ]
    places = [line.find(f"{SVG}text").get("y") for line in lines]
    assert places[2] == places[3] != places[1]  # what goes on stands where its end then stands


def test_the_picture_of_the_readme_is_small_and_whole():
    picture = ROOT / "docs" / "images" / "tiny.svg"
    text = "".join(ET.parse(picture).getroot().itertext())
    assert picture.stat().st_size < 60_000 and "Stopped." in text and "artifact report/tiny-" in text
