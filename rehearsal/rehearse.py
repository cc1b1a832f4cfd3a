"""Rehearse from beginning to end: sample data, small model, teacher, the pipeline itself, and the table."""

import hashlib
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
from huggingface_hub import hf_hub_download

from ratchet.data_curation.base.files import sha256_file
from ratchet.data_curation.base.hub import hub_answers
from ratchet.infra.inference import KNOWN_MODELS
from ratchet.infra.recipe import Recipe
from ratchet.infra.settings import load_settings
from ratchet.rehearsal.hub import hub
from ratchet.rehearsal.loopback import serving
from ratchet.rehearsal.mechanisms import Evidence, Mechanism, mechanisms
from ratchet.rehearsal.samples import collect, on_hub
from ratchet.rehearsal.smaller import Reduction, smaller
from ratchet.rehearsal.teacher import teacher
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.processes import core_count, free_port, last_lines
from ratchet.verifiers.yaml_files import load_yaml

KEY = "RATCHET_REHEARSAL_KEY"
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
"""Environment of a process group of one, as torch's launcher would set it."""
RECIPE, TABLE, ANSWERS = "rehearsal.yaml", "rehearsal.json", "answers.jsonl"
DATA = ("datasets", "files")
"""Folders of the local Hub that are written again; its small model stays."""


@dataclass(frozen=True)
class Rehearsal:
    rows: Sequence[Mechanism]
    changes: Sequence[Reduction]
    seconds: float
    exit_code: int
    """Exit code of the pipeline."""

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

    `samples` and `published` choose the rows, as in `samples.collect`. `engine` replaces the recipe's; None keeps it.
    Raises RatchetError if the rehearsal cannot begin: a data set is not available, or an architecture is unknown."""
    started = time.perf_counter()
    if recipe.training.stages and recipe.model.path is None:
        raise RatchetError(f"{recipe.name} makes a new model, in minutes: `ratchet run` is its rehearsal.")
    home.mkdir(parents=True, exist_ok=True)
    mirror = home / "hub"
    for place in DATA:
        shutil.rmtree(mirror / place, ignore_errors=True)
    recipe, config = collect(recipe, samples, published, mirror), None
    if path := recipe.model.path:
        config = _config(path)
        if Path(path).is_dir():  # its place is taken by a small one as well
            model = recipe.model.model_copy(update={"path": f"local/{Path(path).name}"})
            recipe = recipe.model_copy(update={"model": model})
    with serving(hub(mirror)) as address:
        environment = {
            **os.environ, "HF_ENDPOINT": address, "HF_HOME": str(home / "huggingface"), "HF_HUB_OFFLINE": "0",
            "HF_HUB_CACHE": str(home / "huggingface/hub"), "HF_HUB_DISABLE_XET": "1", KEY: "rehearsal",
        }  # fmt: skip
        environment.pop("HF_TOKEN", None)
        say(f"a few rows of each file; {len(on_hub(recipe))} data sets at a local Hub, {address}")
        prepared = _prepare(recipe, engine, home, mirror, config, environment, say)
        learned = f"; a small {config['model_type']} learned from them" if config else ""
        say(f"{prepared['answered']} of {prepared['problems']} problems answered{learned}")
        with serving(teacher(home / ANSWERS)) as teacher_address:
            ranks = prepared["gpus"] or min(2, core_count())
            reduced, changes = smaller(recipe, prepared["rows"], ranks, engine)
            _write(_with_teacher(reduced, teacher_address), home / RECIPE)
            earlier = _journals(home)
            command = [sys.executable, "-P", "-m", "ratchet.rehearsal.run", str(home / RECIPE), str(home)]
            code = subprocess.run(command, env=environment).returncode
    rows = mechanisms(reduced, Evidence(home, sorted(_journals(home) - earlier)))
    table = [{"name": row.name, "seen": row.seen, "evidence": row.evidence, "artifact": row.ref} for row in rows]
    (home / TABLE).write_text(json.dumps(table, indent=1, ensure_ascii=False))
    return Rehearsal(rows, changes, time.perf_counter() - started, code)


def _journals(home: Path) -> set[Path]:
    return {*load_settings(home).journals.glob("*.jsonl")}


def _config(path: str) -> dict[str, Any]:
    """config.json of a model: of a directory, of the Hub, or as far as it is known here."""
    if Path(path).is_dir() or hub_answers():
        try:
            file = Path(path) / "config.json" if Path(path).is_dir() else Path(hf_hub_download(path, "config.json"))
            return json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise RatchetError(
                f"{path}: its config.json cannot be read ({' '.join(str(error).split())[:200]})."
            ) from error
    shapes = load_yaml(KNOWN_MODELS)
    if path not in shapes:
        raise RatchetError(
            f"{path}: its architecture is not known here, and the Hub does not answer. Give a directory with its "
            f"config.json, --set model.path=DIR, or one of {', '.join(shapes)}."
        )
    return shapes[path]


def _prepare(
    recipe: Recipe, engine: Mapping[str, Any] | None, home: Path, mirror: Path, config: Any,
    environment: Mapping[str, str], say: Callable[[str], None],
) -> dict[str, Any]:  # fmt: skip
    """Answers and a small model, or those of an earlier rehearsal with the same data and recipe."""
    reduced, _ = smaller(recipe, {}, recipe.training.hardware.processes, engine)
    data, code = reduced.model_dump(mode="json"), Path(__file__).parent
    of_run = {**data, "training": None, "config": config}
    files = {place: _hashes(mirror / place) for place in DATA} | {"code": _hashes(code)}
    of = hashlib.sha256(json.dumps([of_run, files], sort_keys=True).encode()).hexdigest()
    done_file = home / "prepared.json"
    if done_file.is_file() and (earlier := json.loads(done_file.read_text()))["of"] == of:
        return earlier
    done_file.unlink(missing_ok=True)
    settings = load_settings(home)
    for directory in (settings.artifacts, settings.home / "generations"):
        # A run knows small model and teacher by name, and would take what others have left for their own.
        shutil.rmtree(directory, ignore_errors=True)
    spec = home / "prepare.json"
    names = {"recipe": "prepared.yaml", "answers": ANSWERS, "lessons": "lessons.json"}
    places = {part: home / name for part, name in names.items()}
    places |= {"home": home, "model": mirror / f"models/{recipe.model.path}"}
    _write(data, places["recipe"])
    facts = {name: str(place) for name, place in places.items()} | {"config": config, "workers": core_count()}
    spec.write_text(json.dumps(facts))
    # One thread: the products of a model this small are not worth more.
    alone = {**environment, **ALONE, "OMP_NUM_THREADS": "1", "MASTER_PORT": str(free_port())}
    *notes, answered = _lines("prepare", spec, alone)
    for note in notes:
        say(note)
    prepared = {**json.loads(answered), "gpus": 0, "of": of}
    if config:
        prepared["gpus"] = int(_lines("small_model", spec, alone)[-1])
    done_file.write_text(json.dumps(prepared))
    return prepared


def _lines(module: str, spec: Path, environment: Mapping[str, str]) -> list[str]:
    """Run a module of this package, and return the lines that it prints. Raises RatchetError if it fails."""
    command, file = [sys.executable, "-P", "-m", f"ratchet.rehearsal.{module}", str(spec)], spec.with_suffix(".log")
    with open(file, "a") as log:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    if done.returncode:
        raise RatchetError(f"The small model could not be made. The end of {file}:\n{last_lines(file, 25)}")
    return done.stdout.splitlines()


def _hashes(directory: Path) -> dict[str, str]:
    files = sorted(file for file in directory.rglob("*") if file.is_file() and file.suffix != ".pyc")
    return {str(file.relative_to(directory)): sha256_file(file) for file in files}


def _write(data: dict[str, Any], file: Path) -> None:
    file.write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False))


def _with_teacher(recipe: Recipe, address: str) -> dict[str, Any]:
    """The recipe with the local teacher instead of every model that is asked at an endpoint."""
    data = recipe.model_dump(mode="json")
    _redirect(data, {"base_url": f"{address}/v1", "api_key_env": KEY, "concurrency": 8})
    return data


def _redirect(value: Any, endpoint: Mapping[str, Any]) -> None:
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _redirect(inner, endpoint)
    if isinstance(value, dict) and value.get("kind") == "openai":
        value.update(endpoint)
