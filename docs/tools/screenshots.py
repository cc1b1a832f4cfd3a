"""The pictures of a finished run, docs/images/report.png and docs/images/mlflow.png, by a headless Chromium.

    ratchet run tiny --home HOME
    ratchet ui --home HOME                                            # in another terminal
    python docs/tools/screenshots.py HOME http://127.0.0.1:5000       # `apt-get install chromium`

The report is the newest of the home; MLflow's page is that of its last evaluation, with all that it was made from.
"""

import base64
import io
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from websockets.sync.client import ClientConnection, connect

from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import ArtifactStore
from ratchet.infra.tracking.events import read_state
from ratchet.infra.tracking.run_record import all_runs
from ratchet.verifiers.processes import free_port

IMAGES = Path(__file__).resolve().parents[1] / "images"
WAIT_S, SETTLED_S, COLORS = 60, 3, 128
MLFLOW = """
document.querySelector('[data-component-id="mlflow.assistant.chat_panel.close"]')?.click();
[...document.querySelectorAll("button, span, a")].find(each => each.innerText === "Show more")?.click();
"""
"""Closes the assistant, unfolds the description."""


class Page:
    """A tab that is driven by Chromium's debugging protocol."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._number = socket, 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while (answer := json.loads(self._socket.recv(timeout=WAIT_S))).get("id") != self._number:
            pass
        return answer["result"]

    def run(self, script: str) -> Any:
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, address: str, awaited: str, width: int, height: int) -> None:
        """Returns once the page has the text that is `awaited`. Raises TimeoutError."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=address)
        deadline = time.monotonic() + WAIT_S
        while awaited not in (self.run("document.body.innerText") or ""):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{address} does not show {awaited!r}")
            time.sleep(0.3)
        time.sleep(SETTLED_S)

    def save(self, file: Path) -> None:
        shot = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLORS).save(file, optimize=True)
        print(f"{file}  {file.stat().st_size:,} bytes")


@contextmanager
def browser() -> Iterator[Page]:
    port = free_port()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        argv = ["chromium", "--headless=new", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={profile}"]
        argv += [f"--remote-debugging-port={port}", "--remote-allow-origins=*", "about:blank"]
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            with closing(connect(_tab(port), max_size=None)) as socket:
                yield Page(socket)
        finally:
            process.kill()
            process.wait()


def _tab(port: int) -> str:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                return next(tab["webSocketDebuggerUrl"] for tab in json.load(answer) if tab["type"] == "page")
        except (OSError, StopIteration):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def main(home: str, mlflow: str) -> None:
    settings = load_settings(home)
    report = next(a for a in reversed(list(ArtifactStore(settings.artifacts).all())) if a.kind == "report")
    record = next(run for run in all_runs(settings) if any(step.output.kind == "evaluation" for step in run.steps))
    last = [step for step in record.steps if step.output.kind == "evaluation"][-1]
    state = read_state(settings, record.run_id)
    step = f"{mlflow}/#/experiments/{state['experiment_id']}/runs/{state['runs'][last.run]}"
    with browser() as page:
        page.open((report.path / "report.html").as_uri(), "Scores", 1180, 1330)
        page.save(IMAGES / "report.png")
        page.open(f"{step}?workflowType=machine_learning", "Made from", 1180, 1000)
        page.run(MLFLOW)
        time.sleep(SETTLED_S)
        page.save(IMAGES / "mlflow.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
