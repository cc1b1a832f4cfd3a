"""A rehearsal from beginning to end: sample data, small model, teacher, the pipeline itself, and the table."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ratchet.infra.recipe import Recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.files import sha256_file
from ratchet.rehearsal.hub import hub
from ratchet.rehearsal.loopback import serving
from ratchet.rehearsal.mechanisms import Evidence, Mechanism, mechanisms
from ratchet.rehearsal.samples import collect
from ratchet.rehearsal.smaller import Change, smaller
from ratchet.rehearsal.teacher import teacher
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, free_port, last_lines

WAITING = 3
"""Exit code of a run that waits at a gate."""
KEY = "RATCHET_REHEARSAL_KEY"
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
"""A process group of one, as torch's launcher would describe it."""
RECIPE, TABLE = "rehearsal.yaml", "rehearsal.json"


@dataclass(frozen=True)
class Rehearsal:
    rows: Sequence[Mechanism]
    changes: Sequence[Change]
    seconds: float
    exit_code: int
    """Of the pipeline."""

    @property
    def unseen(self) -> list[Mechanism]:
        return [row for row in self.rows if not row.seen]


def rehearse(
    recipe: Recipe,
    home: Path,
    samples: Path | None,
    published: bool,
    engine: Mapping[str, Any] | None,
    say: Callable[[str], None],
) -> Rehearsal:
    """Run the recipe small, end to end, in `home`, and look for each of its mechanisms.

    `samples` and `published`: which rows, as in `samples.collect`. `engine`: instead of the recipe's,
    None to keep it. Raises RatchetError where the rehearsal cannot begin: a data set that is not available, an
    architecture that is not known here."""
    started = time.perf_counter()
    home.mkdir(parents=True, exist_ok=True)
    mirror = home / "hub"
    shutil.rmtree(mirror, ignore_errors=True)
    mirror.mkdir(parents=True)
    names = collect(recipe, samples, published, mirror)
    config = _config(recipe)
    with serving(hub(mirror)) as address:
        environment = {
            **os.environ, "HF_ENDPOINT": address, "HF_HOME": str(home / "huggingface"), "HF_HUB_OFFLINE": "0",
            "HF_HUB_CACHE": str(home / "huggingface/hub"), "HF_HUB_DISABLE_XET": "1", KEY: "rehearsal",
        }  # fmt: skip
        environment.pop("HF_TOKEN", None)
        say(f"{len(names)} data sets, a few rows of each, at a local Hub, {address}")
        reduced, _ = smaller(recipe, {}, processes(), engine)
        counts = _prepare(reduced, home, mirror, config, environment, say)
        learned = f"; a small {config['model_type']} learned from them" if config else ""
        say(f"{counts['answered']} of {sum(counts['problems'].values())} problems answered{learned}")
        _forget_others(home, mirror)
        with serving(teacher(home / "answers.jsonl")) as teacher_address:
            reduced, changes = smaller(recipe, counts["problems"], processes(), engine)
            earlier = _journals(home)
            code = _run(_with_teacher(reduced, f"{teacher_address}/v1"), home, environment)
    rows = mechanisms(reduced, Evidence(home, sorted(_journals(home) - earlier)))
    (home / TABLE).write_text(json.dumps([vars(row) for row in rows], indent=1, ensure_ascii=False))
    return Rehearsal(rows, changes, time.perf_counter() - started, code)


def _forget_others(home: Path, mirror: Path) -> None:
    """Remove what another small model or teacher has left: a run knows both by name, and would take it for its own."""
    files = [home / "answers.jsonl", *sorted(mirror.glob("models/**/*.safetensors"))]
    content, before = " ".join(map(sha256_file, files)), home / "content"
    if before.is_file() and before.read_text() != content:
        settings = load_settings(home)
        for directory in (settings.artifacts, settings.home / "generations"):
            shutil.rmtree(directory, ignore_errors=True)
    before.write_text(content)


def _journals(home: Path) -> set[Path]:
    return {*load_settings(home).journals.glob("*.jsonl")}


def processes() -> int:
    """Ranks here: one for each GPU, otherwise two on two cores or more."""
    import torch

    return torch.cuda.device_count() or min(2, core_count())


def _config(recipe: Recipe) -> dict[str, Any] | None:
    """config.json of the recipe's model, if it has one on the Hub."""
    path = recipe.model.path
    if path is None or Path(path).is_dir():
        return None
    from ratchet.infra.inference.models import read_config

    return read_config(path).to_dict()


def _prepare(
    recipe: Recipe, home: Path, mirror: Path, config: Any, environment: Mapping[str, str], say: Callable[[str], None]
) -> dict[str, Any]:
    spec, log = home / "prepare.json", home / "prepare.log"
    _write(recipe.model_dump(mode="json"), home)
    files = {
        "recipe": home / RECIPE,
        "answers": home / "answers.jsonl",
        "model": mirror / "models" / (recipe.model.path or ""),
    }
    facts = {**{name: str(file) for name, file in files.items()}, "config": config, "workers": core_count()}
    spec.write_text(json.dumps(facts))
    command = [sys.executable, "-P", "-m", "ratchet.rehearsal.prepare", str(spec)]
    alone = {**environment, **ALONE, "OMP_NUM_THREADS": str(min(4, core_count())), "MASTER_PORT": str(free_port())}
    with open(log, "w") as file:
        done = subprocess.run(command, env=alone, stdout=subprocess.PIPE, stderr=file, text=True)
    if done.returncode:
        raise RatchetError(f"The small model could not be made. The end of {log}:\n{last_lines(log, 25)}")
    *notes, counts = done.stdout.splitlines()
    for note in notes:
        say(note)
    return json.loads(counts)


def _write(data: dict[str, Any], home: Path) -> None:
    (home / RECIPE).write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))


def _with_teacher(recipe: Recipe, address: str) -> dict[str, Any]:
    """The recipe with the local teacher instead of every model that is asked at an endpoint."""
    data = recipe.model_dump(mode="json")
    _redirect(data, {"base_url": address, "api_key_env": KEY, "concurrency": 8})
    return data


def _redirect(value: Any, endpoint: Mapping[str, Any]) -> None:
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _redirect(inner, endpoint)
    if isinstance(value, dict) and value.get("kind") == "openai":
        value.update(endpoint)


def _run(data: dict[str, Any], home: Path, environment: Mapping[str, str]) -> int:
    """`ratchet run` of the reduced recipe, approved at each gate; its exit code."""
    _write(data, home)
    command = [sys.executable, "-m", "ratchet.cli.main", "run", str(home / RECIPE), "--home", str(home)]
    code = subprocess.run(command, env=environment).returncode
    for _ in data["approve"]:
        if code != WAITING:
            break
        code = subprocess.run([*command, "--approve"], env=environment).returncode
    return code
