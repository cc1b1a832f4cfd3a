"""The stages of `tiny` on a GPU to their scores, a kill with a bitwise resume, and GRPO steps of larger models.

    python -m benchmarks.gpu_stages --pack HOME FILES                # on any machine, after `ratchet run tiny`
    python -m benchmarks.gpu_stages FILES --write REPORT [--cpu]     # on the GPU machine, in four minutes

FILES holds the curated problems, the traces and the held-out problems of `tiny`, 3 MB. The stages run in the trainer's
own processes (`training.launch`); Prefect, MLflow and an installation are not needed. Each part is a row or more, what
fails is a row that says so, and REPORT is written after every row. `--cpu` rehearses it with one step a stage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from benchmarks.gpu_proof import BIG, MIDDLE, ROOT, TINY  # makes `ratchet` importable without an installation
from ratchet.data_curation.base.files import sha256_file
from ratchet.data_curation.base.journal import read_lines
from ratchet.data_curation.base.problem_table import from_table, to_table
from ratchet.data_curation.base.prompts import prompt_ids
from ratchet.data_curation.base.protocol import Request, Sampling, derive_seed
from ratchet.evaluation.score_responses import score_responses
from ratchet.infra.inference.models import read_model
from ratchet.infra.inference.transformers_engine import TransformersEngine
from ratchet.infra.recipe import Recipe, load_recipe
from ratchet.infra.recipe.model import GrownModel, Model
from ratchet.infra.recipe.training import Hardware, Stage, Training
from ratchet.training import growth
from ratchet.training.specification import TrainingSpec
from ratchet.verifiers.problem import Problem

SCORED = ("start", "math-52", "code-60", "math-60")
Row = tuple[str, str, str]
"""Part, seconds, result."""


def pack(home: Path, files: Path) -> None:
    """Copy what the stages of `tiny` read out of a home in which `ratchet run tiny` has made it."""
    files.mkdir(parents=True, exist_ok=True)
    wanted = {
        "math.parquet": "problems/math-curated-*/kept.parquet", "code.parquet": "problems/code-curated-*/kept.parquet",
        "traces.parquet": "traces/*/kept.parquet",
        "math_benchmark.parquet": "problems/math_benchmark-*/kept.parquet",
        "code_benchmark.parquet": "problems/code_benchmark-*/kept.parquet",
    }  # fmt: skip
    for name, pattern in wanted.items():
        found = sorted((home / "artifacts").glob(pattern), key=lambda file: file.stat().st_mtime)
        if not found:
            sys.exit(f"{home} has no {pattern}: run `ratchet run tiny --home {home}` first")
        shutil.copyfile(found[-1], files / name)


class Stages:
    def __init__(self, files: Path, report: Path, small: bool) -> None:
        self.files, self.report, self.small = files, report, small
        self.work = Path(tempfile.mkdtemp(prefix="gpu-stages-"))
        self.rows: list[Row] = []
        self.lock = threading.Lock()
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join([self.importable(), *sys.path])}

    def importable(self) -> str:
        """A directory in which the checkout's folders are the package `ratchet`."""
        package = self.work / "site" / "ratchet"
        package.mkdir(parents=True)
        for folder in (child for child in ROOT.iterdir() if (child / "__init__.py").is_file()):
            (package / folder.name).symlink_to(folder)
        return str(package.parent)

    def part(self, name: str, measure: Callable[[], Iterator[Row]]) -> None:
        started = time.perf_counter()
        try:
            for row in measure():
                self.add(row)
        except Exception as error:  # a part that fails must not cost the others the GPU's minutes
            traceback.print_exc()
            self.add((name, f"{time.perf_counter() - started:.0f}", f"failed: {type(error).__name__}: {error}"[:600]))

    def add(self, row: Row) -> None:
        with self.lock:
            self.rows.append(row)
            print("  ".join(row), flush=True)
            where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
            lines = [f"{where}, torch {torch.__version__}.", "", "| | seconds | |", "|---|---:|---|"]
            cells = (" | ".join(cell.replace("\n", " ").replace("|", "/") for cell in each) for each in self.rows)
            self.report.write_text("\n".join([*lines, *(f"| {each} |" for each in cells)]) + "\n")

    def tiny(self) -> Recipe:
        recipe = load_recipe("tiny")
        hardware = recipe.training.hardware.model_copy(update={"processes": 1})
        settings = recipe.training.model_copy(update={"hardware": hardware})
        if self.small:
            stages = tuple(stage.model_copy(update={"steps": 1, "prompts_per_batch": 4}) for stage in settings.stages)
            settings = settings.model_copy(update={"stages": stages})
        return recipe.model_copy(update={"training": settings})

    def launch(self, spec: TrainingSpec, work: Path) -> subprocess.Popen[bytes]:
        work.mkdir(parents=True, exist_ok=True)
        file = work.with_suffix(".json")
        file.write_text(spec.model_copy(update={"work_dir": work}).model_dump_json())
        argv = (sys.executable, "-P", "-m", "ratchet.training.launch", str(file))
        with open(work.with_suffix(".log"), "ab") as log:
            return subprocess.Popen(argv, env=self.environment, stdout=log, stderr=log, start_new_session=True)

    def stage_spec(self, recipe: Recipe, stage: Stage, model: Path, problems: dict[str, Path]) -> TrainingSpec:
        return TrainingSpec.of(
            recipe, kind="stage", stage=stage.name, model_dir=str(model), problems=problems, work_dir=self.work
        )

    def run(self, spec: TrainingSpec, work: Path) -> tuple[Path, float]:
        """Run a specification to its end: the trained model, and seconds."""
        started = time.perf_counter()
        self.launch(spec, work).wait()
        self.check(work)
        return work / "model", time.perf_counter() - started

    @staticmethod
    def check(work: Path) -> None:
        status = json.loads((work / "status.json").read_text()) if (work / "status.json").is_file() else {}
        if status.get("state") != "finished":
            log = work.with_suffix(".log").read_text(errors="replace").splitlines()
            print("\n".join(log[-60:]), flush=True)
            errors = [line for line in log if "Error" in line and not line.startswith(" ")]
            raise RuntimeError(status.get("message") or (errors or log)[-1])

    def stages_of_tiny(self) -> Iterator[Row]:
        recipe = self.tiny()
        traces = self.files / "traces.parquet"
        if self.small:
            traces = self.work / "traces.parquet"
            pq.write_table(pq.read_table(self.files / "traces.parquet").slice(0, 64), traces)
        spec = TrainingSpec.of(recipe, kind="warm_start", traces=traces, work_dir=self.work)
        model, seconds = self.run(spec, self.work / "start")
        self.started.set()
        yield "tiny, warm start", f"{seconds:.0f}", ""
        yield self.score("start", model)
        for stage in recipe.training.stages:
            problems = {domain: self.files / f"{domain}.parquet" for domain in stage.domains}
            spec = self.stage_spec(recipe, stage, model, problems)
            work = self.work / stage.name
            model, seconds = self.run(spec, work)
            yield f"tiny, {stage.name}", f"{seconds:.0f}", curve(records(work))
            if stage.name in SCORED:
                yield self.score(stage.name, model)

    def score(self, after: str, path: Path) -> Row:
        """pass@1 and pass@16 of the held-out problems, sampled and judged as an evaluation does."""
        started = time.perf_counter()
        model, tokenizer = read_model(str(path), "float32")
        model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        engine = TransformersEngine(model, tokenizer)
        said = []
        for domain in ("math", "code"):
            table = pq.read_table(self.files / f"{domain}_benchmark.parquet")
            table = table.slice(0, 4) if self.small else table
            problems = from_table(table)
            prompts = prompt_ids(tokenizer, problems, load_recipe("tiny").model.prompt)
            requests = [
                Request((problem.problem_id, sample), derive_seed(7, problem.problem_id, sample), prompt_ids=prompt)
                for problem, prompt in zip(problems, prompts, strict=True)
                for sample in range(16)
            ]
            responses: dict[str, list[str]] = {problem.problem_id: [] for problem in problems}
            for completion in engine.generate(requests, Sampling(max_tokens=64)):
                responses[completion.key[0]].append(completion.text)
            one, many = score_responses(table, responses, pass_at=(1, 16))["pass_at"].values()
            said.append(
                f"{domain} pass@1 {one['value']:.3f} ± {one['standard_error']:.3f}, pass@16 {many['value']:.3f}"
            )
        return f"tiny, scores after {after}", f"{time.perf_counter() - started:.0f}", "; ".join(said)

    def resume(self) -> Iterator[Row]:
        """One stage undisturbed, and again with its processes killed: the same weights, bit for bit?"""
        self.started.wait(timeout=150)
        recipe = self.tiny()
        training = recipe.training.model_copy(update={"checkpoint_every": 4})
        stage = training.stages[0].model_copy(update={"steps": 12, "prompts_per_batch": 4})
        training = training.model_copy(update={"stages": (stage, *training.stages[1:])})
        recipe = recipe.model_copy(update={"training": training})
        problems = {"math": self.files / "math.parquet"}
        spec = self.stage_spec(recipe, stage, self.work / "start" / "model", problems)
        found, killed = [], 0
        for name in ("undisturbed", "again", "killed"):
            started, work = time.perf_counter(), self.work / f"resume-{name}"
            worker = self.launch(spec, work)
            while name == "killed" and worker.poll() is None:
                if len(records(work)) >= 6:
                    os.killpg(worker.pid, signal.SIGKILL)
                    worker.wait()
                    killed = len(records(work))
                    worker = self.launch(spec, work)
                    break
                time.sleep(0.02)
            worker.wait()
            self.check(work)
            found.append((sha256_file(work / "model" / "model.safetensors"), time.perf_counter() - started))
        names = ("the same stage twice, 12 steps", f"killed (SIGKILL) after step {killed} and resumed")
        for name, (digest, seconds) in zip(names, found[1:], strict=True):
            same = "the same weights, bit for bit" if digest == found[0][0] else "NOT the same weights"
            yield name, f"{seconds:.0f}", same

    def steps(self, name: str, grown: GrownModel, prompts: int, rollouts: int, length: int) -> Iterator[Row]:
        """Whole GRPO steps with random weights: every response runs to its limit, as a long one does."""
        model, steps = self.work / f"model-{name}", 2
        growth.grow(grown, ["one two three", "a proof is a number"], 0, model)
        problems = self.work / f"problems-{name}.parquet"
        rows = [Problem(f"sum-{i}", domain="math", prompt=f"{i} + 1?", answer=str(i + 1)) for i in range(64)]
        pq.write_table(to_table(rows), problems)
        cuda = torch.cuda.is_available()
        hardware = Hardware(
            dtype="bfloat16" if cuda else "float32", packed=True, activation_checkpointing=True, zero_stage=1,
            micro_batch_tokens=16_384, rollout_batch=prompts * rollouts,
        )  # fmt: skip
        stage = Stage(
            name="s", mix={"math": 1.0}, max_response_tokens=length, steps=steps, prompts_per_batch=prompts,
            rollouts=rollouts,
        )  # fmt: skip
        training = Training(stages=(stage,), hardware=hardware, checkpoint_every=100)
        recipe = Recipe(name="step", model=Model(path=str(model)), training=training)
        work = self.work / f"step-{name}"
        _, seconds = self.run(self.stage_spec(recipe, stage, model, {"math": problems}), work)
        last = records(work)[-1]
        parts = ", ".join(f"{key} {value:.3g}" for key, value in last.items() if key.endswith(("_s", "_seconds")))
        said = f"{prompts} x {rollouts} responses of {last.get('response_tokens', 0):.0f} tokens; "
        said += f"mismatch_kl {last.get('mismatch_kl', float('nan')):.2g}; {parts}"
        yield f"GRPO step, {name}, the last of {steps}", f"{seconds:.0f} in all", said

    def all(self) -> None:
        self.started = threading.Event()
        resume = threading.Thread(target=self.part, args=("kill and resume", self.resume))
        resume.start()  # beside the stages, which a model of this size leaves most of a GPU
        self.part("tiny", self.stages_of_tiny)
        self.started.set()
        resume.join()
        sizes = [("1.5B", BIG, 8, 8, 256), ("0.5B", MIDDLE, 8, 8, 256)]
        for size in [("small", TINY, 4, 4, 32)] if self.small else sizes:
            self.part(f"GRPO step, {size[0]}", lambda size=size: self.steps(*size))
        shutil.rmtree(self.work, ignore_errors=True)


def records(work: Path) -> list[dict[str, Any]]:
    file = work / "metrics.jsonl"
    return [line for _, line in read_lines(file)] if file.is_file() else []


def curve(found: list[dict[str, Any]]) -> str:
    """Pass rate of the first and last five steps."""
    rates = [record["pass_rate"] for record in found if record.get("pass_rate") is not None]
    return f"{len(rates)} steps, pass rate {statistics.fmean(rates[:5]):.2f} to {statistics.fmean(rates[-5:]):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path)
    parser.add_argument("--pack", type=Path, metavar="HOME")
    parser.add_argument("--write", type=Path, default=Path("gpu_stages.md"))
    parser.add_argument("--cpu", action="store_true", help="one step a stage and a small model, on any machine")
    asked = parser.parse_args()
    if asked.pack:
        pack(asked.pack, asked.files)
        return
    if not (asked.cpu or torch.cuda.is_available()):
        parser.error("there is no GPU here: --cpu rehearses it")
    Stages(asked.files.resolve(), asked.write.resolve(), asked.cpu).all()


if __name__ == "__main__":
    main()
