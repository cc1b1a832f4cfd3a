"""What a person at a terminal sees, on a terminal."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from rich.console import Console

from ratchet.cli.live import LiveReporter
from ratchet.tasks.reporter import ProgressReporter
from tests.flows.commands import MINI, ROOT
from tests.waiting import happens


def test_a_step_shows_its_bar_metrics_and_time_left_and_then_one_line():
    screen = io.StringIO()
    with LiveReporter(Console(file=screen, force_terminal=True, width=120)) as reporter:
        reporter.phase("Train")
        reporter.step_started("train math-24")
        reporter.progress(1, 4, {"reward": 0.25, "response_tokens": 17.0})
        time.sleep(0.3)
        reporter.progress(2, 4, {"reward": 0.5, "response_tokens": 18.0})
        assert happens(lambda: "2/4" in screen.getvalue() and "left" in screen.getvalue())
        reporter.step_finished("train math-24", "4 steps", 75.0)
        reporter.step_cached("evaluate start", "pass@1 0.5")
        reporter.not_done("difficulty code", "no teacher is configured")
    shown = screen.getvalue()
    for part in ("2/4", "left", "reward 0.50", "18 tok", "1m 15s", "4 steps", "cached", "no teacher is configured"):
        assert part in shown, part


def test_cached_steps_are_one_line_and_a_part_without_work_has_no_title(capsys):
    reporter = ProgressReporter()
    for title in ("Curate math", "Curate code"):
        reporter.phase(title)
        reporter.step_cached("rules", "90 kept")
    reporter.phase("Train")
    reporter.step_cached("warm start", "")
    reporter.step_started("train math-24")
    reporter.step_finished("train math-24", "4 steps", 7.5)
    reporter.step_cached("report mini", "")
    reporter.show_cached()
    reporter.show_cached()
    assert capsys.readouterr().out.splitlines() == [
        "✓ 3 steps (cached)", "", "Train", "… train math-24", "✓ train math-24 (7.5 s) 4 steps",
        "✓ report mini (cached)",
    ]  # fmt: skip


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads a pseudo-terminal")
def test_control_c_leaves_a_clean_terminal_and_says_how_to_go_on(ready_home):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ratchet.cli.main", "run", str(MINI), "--home", str(ready_home)],
        cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # the session's controlling terminal
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown, interrupted = b"", False
    while True:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            shown += part
        if not interrupted and b"normalize math" in shown:
            interrupted = bool(os.write(ours, b"\x03"))
    assert process.wait() == 130
    text = shown.decode(errors="replace")
    assert re.search(r"Interrupted( in [a-z ]+( \(\d+/\d+\))?)?\. Finished work is kept", " ".join(text.split()))
    assert "the same command continues from there:" in " ".join(text.split()) and "Traceback" not in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is shown again"
