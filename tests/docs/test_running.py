"""The commands of each page and the examples of `--help`, typed as they stand, in a directory like a reader's: against
finished runs in small."""

import gzip
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ratchet.infra.recipe.model import NewModelConfig
from ratchet.training.new_model import create
from tests.docs.commands import Command, commands, fenced

WHY_NOT: dict[str, str] = yaml.safe_load(Path(__file__).with_name("not_run.yaml").read_text())
OF_MINE = ("README.md", "docs/tutorials/own_data.md", "docs/howto/benchmark.md", "docs/howto/loss.md")
"""Pages whose commands are about the reader's own recipe, which has a home of its own."""
OWN_DOMAIN = "tutorials/own_domain.md"
SMALL = [
    "generate.tiny-world.math_rows=150", "generate.tiny-world.code_rows=60", "generate.tiny-world.benchmark_problems=6",
    "curation.code.validation.max_mutants=2", "curation.math.teacher.attempts=2", "curation.code.teacher.attempts=2",
    "training.warm_start.traces=160", "training.hardware.processes=1", "training.stages.*.steps=1",
    "training.stages.*.prompts_per_batch=4", "training.stages.*.rollouts=4", "evaluation.benchmarks.*.samples=2",
    "evaluation.pass_at=[1, 2]",
]  # fmt: skip
SMALL_MINE = [
    "training.stages.0.steps=1", "training.stages.0.prompts_per_batch=4", "training.stages.0.max_response_tokens=24",
    "training.hardware.dtype=float32", "evaluation.max_tokens=24",
]  # fmt: skip


def not_run(command: Command) -> str | None:
    text = command.text.removeprefix(".venv/bin/")
    return next((why for start, why in WHY_NOT.items() if text.startswith(start)), None)


RUN = [command for command in commands() if command.in_block and not not_run(command)]


def test_each_reason_is_one_for_a_command_that_there_is():
    texts = [command.text for command in commands() if command.in_block]
    assert [start for start in WHY_NOT if not any(text.startswith(start) for text in texts)] == []
    assert {command.words[0] for command in RUN} == {"ratchet", "ratchet-judge"} and len(RUN) > 40


def typed(line: str, directory: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line.removeprefix(".venv/bin/"))
    environment = {**os.environ, "RATCHET_HOME": str(directory / "home")}
    command = [sys.executable, "-m", "ratchet.cli.main", *words[1:]]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)


def ran(line: str, directory: Path) -> str:
    done = typed(line, directory)
    assert done.returncode == 0, f"{line}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    """A directory in which `tiny` is a smaller recipe of that name and has run with two seeds, beside files of the
    names that pages use."""
    directory = tmp_path_factory.mktemp("tiny")
    settings = shlex.join(argument for setting in SMALL for argument in ("--set", setting))
    (directory / "tiny.yaml").write_text(ran(f"ratchet show tiny {settings}", directory))
    (directory / "RECIPE.yaml").symlink_to("tiny.yaml")
    rows = [
        {"problem": f"Tom has {n} boxes of {n + 2} pens. How many pens?", "answer": f"{n * (n + 2)}"} for n in range(60)
    ]
    (directory / "math_train.json").write_text(json.dumps(rows[:50]))
    (directory / "math500.json").write_text(json.dumps(rows[55:]))
    for name, of_mine in (("train", "math_train"), ("test", "math500")):
        (directory / f"{name}.json").symlink_to(f"{of_mine}.json")
    pq.write_table(pa.Table.from_pylist(rows[:50]), directory / "train.parquet")
    (directory / "held_out").mkdir()
    (directory / "held_out" / "more.json").write_text(json.dumps(rows[50:55]))
    pairs = [{"gold": row["answer"], "pred": row["answer"]} for row in rows[:3]]
    (directory / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    responses = [{"gold": row["answer"], "response": f"So \\boxed{{{row['answer']}}}"} for row in rows[:3]]
    (directory / "answers.jsonl").write_text("\n".join(map(json.dumps, responses)))
    pq.write_table(pa.table({"text": ["Some text that a response may quote."]}), directory / "traces.parquet")
    write_code_files(directory)
    for seed in (1, 0):
        ran(f"ratchet run tiny --seed {seed}", directory)
    return directory


def write_code_files(directory: Path) -> None:
    """A few programs in the published layouts of LeetCodeDataset and HumanEval."""
    header = "class Solution:\n    def add(self, x: int) -> int:\n"
    leetcode = []
    for n in range(2, 12):
        checks = [f"    assert candidate(x={x}) == {x + n}" for x in range(6)]
        leetcode.append({
            "task_id": f"add-{n}", "problem_description": f"Return the sum of the integer x and {n}, for any x at all.",
            "starter_code": f"{header}        ", "entry_point": "Solution().add", "prompt": "",
            "completion": f"{header}        return x + {n}\n", "test": "\n".join(["def check(candidate):", *checks]),
        })  # fmt: skip
    humaneval = {
        "task_id": "HumanEval/0", "prompt": 'def double(x):\n    """Twice the number."""\n', "entry_point": "double",
        "canonical_solution": "    return 2 * x\n", "test": "def check(candidate):\n    assert candidate(2) == 4\n",
    }  # fmt: skip
    for name, rows in (("LeetCodeDataset-train.jsonl.gz", leetcode), ("HumanEval.jsonl.gz", [humaneval])):
        with gzip.open(directory / name, "wt") as file:
            file.write("\n".join(map(json.dumps, rows)))


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> Path:
    """A directory with the recipe of own_data.md, on a random model instead of one from the Hub."""
    directory = tmp_path_factory.mktemp("mine")
    texts = [f"Tom has {n} boxes of pens. Put the final answer in \\boxed{{{n}}}." for n in range(100)]
    create(NewModelConfig(layers=1, intermediate_size=96, vocabulary=400), texts, 0, directory / "model")
    questions = [
        {"question": f"Tom has {n} boxes of {n + 3} pens. How many pens?", "target": f"{n * (n + 3)}"}
        for n in range(40)
    ]
    for name, rows in (("train.jsonl", questions[:30]), ("test.jsonl", questions[30:])):
        (directory / name).write_text("\n".join(map(json.dumps, rows)))
    held_out = [{"question": row["question"], "answer": row["target"]} for row in questions[30:]]
    (directory / "held_out.jsonl").write_text("\n".join(map(json.dumps, held_out)))
    recipe = yaml.safe_load(fenced("tutorials/own_data.md", "yaml")[0])
    benchmarks = yaml.safe_load(fenced("howto/benchmark.md", "yaml")[0])["evaluation"]["benchmarks"]
    recipe["evaluation"]["benchmarks"] += [entry for entry in benchmarks if entry["name"] == "held-out"]
    recipe["model"]["path"] = "./model"
    (directory / "mine.yaml").write_text(yaml.safe_dump(recipe | {"set": SMALL_MINE}))
    ran("ratchet run mine.yaml", directory)
    return directory


@pytest.fixture(scope="module")
def countdown(tmp_path_factory) -> Path:
    """A directory with the domain of own_domain.md, and right answers to problems of it."""
    directory = tmp_path_factory.mktemp("countdown")
    (directory / "countdown.py").write_text(fenced(OWN_DOMAIN, "python")[0])
    (directory / "countdown.yaml").write_text(fenced(OWN_DOMAIN, "yaml")[0])
    made = [sys.executable, "-c", "import countdown, pathlib; countdown.make_problems(pathlib.Path(), 0, traces=20)"]
    subprocess.run(made, cwd=directory, check=True)
    (directory / "traces.jsonl").rename(directory / "answers.jsonl")
    return directory


def completed(line: str, home: Path) -> str:
    """The names of artifacts whose keys a page leaves out (`checkpoint/math-36-…`, `checkpoint/math-36`), as the home
    has them."""

    def newest(name: re.Match[str]) -> str:
        found = sorted((home / "artifacts").glob(f"{name[1]}-*"), key=lambda path: path.stat().st_mtime)
        assert found, f"{name[0]}: nothing of that name was made"
        return f"{found[-1].parent.name}/{found[-1].name}"

    kinds = "checkpoint|evaluation|problems|report"
    return re.sub(rf"\b((?:{kinds})/[a-z0-9-]+?)(?:-…)?(?![\w/-])", newest, line)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({command.page for command in RUN}))
def test_the_commands_of_a_page_run(page, request):
    own_domain = page == f"docs/{OWN_DOMAIN}"
    directory = request.getfixturevalue("countdown" if own_domain else "mine" if page in OF_MINE else "tiny")
    for number, text in enumerate(dict.fromkeys(command.text for command in RUN if command.page == page)):
        line = completed(text, directory / "home").replace(" DIR", f" exported-{number}")
        if line.startswith("ratchet-judge serve"):
            serve(f"{line} --port {free_port()}", directory)
        else:
            if "verify code" in line:
                write_programs(directory)
            if "decontaminate --" in line:
                line = line.replace("--output clean", f"--output clean-{Path(page).stem}")
            said = ran(line, directory)
            assert not own_domain or "failed" not in said, said


def write_programs(directory: Path) -> None:
    """The curated code problems with their golden solutions as answers."""
    curated = sorted((directory / "home" / "artifacts" / "problems").glob("code-curated-*"))[-1]
    problems = pq.read_table(curated / "kept.parquet")
    for name in ("problems", "kept"):
        pq.write_table(problems, directory / f"{name}.parquet")
    answers = [{"problem_id": row["problem_id"], "code": row["golden_solutions"][0]} for row in problems.to_pylist()]
    (directory / "answers.jsonl").write_text("\n".join(map(json.dumps, answers)))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def serve(line: str, directory: Path) -> None:
    """A server that says where it listens, and ends when it is interrupted."""
    command = [sys.executable, "-u", "-m", "ratchet.verifiers.serving.command", *shlex.split(line)[1:]]
    environment = {**os.environ, "RATCHET_HOME": str(directory / "home")}
    process = subprocess.Popen(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and "http://127.0.0.1" in process.stdout.readline()
        time.sleep(1)
        process.terminate()
        assert process.wait() == 0
    finally:
        process.kill()


@pytest.mark.slow
def test_the_snippet_that_plots_metrics_plots(tiny, monkeypatch):
    import matplotlib

    matplotlib.use("Agg")
    [snippet] = fenced("howto/not_learning.md", "python")
    stage = next((tiny / "home" / "artifacts" / "checkpoint").glob("math-44-*"))
    monkeypatch.chdir(stage)
    exec(compile(snippet, "not_learning.md", "exec"), {})
    assert len(matplotlib.pyplot.gcf().axes) == 5


@pytest.mark.slow
def test_the_snippet_that_reads_a_home_reads_it(tiny):
    [snippet] = fenced("reference/evaluation.md", "python")
    names = {}
    exec(snippet.replace('".ratchet"', repr(str(tiny / "home"))), names)
    assert len(names["home"].evaluations()) and len(names["home"].generations("math-60", "tiny-math"))
