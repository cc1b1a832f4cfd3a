"""What a person meets first: help, mistakes, the doctor."""

import errno
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pyarrow.parquet as pq
import pytest
import typer

from ratchet.cli.main import app
from ratchet.cli.prefect_server import prefect_server, wait_until_up
from ratchet.data_curation.base.problem_table import to_table
from ratchet.infra.recipe.load import load_recipe, read_recipe, shipped_recipes
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError, in_words
from ratchet.verifiers.processes import process_group
from tests.flows.commands import MINI, in_process
from tests.infra.misbehaving_server import Server
from tests.infra.tiny_endpoint import grow_model
from tests.waiting import happens

COMMANDS = ["run", "curate", "train", "evaluate", "compare", "report", "show", "ui", "doctor", "preflight", "gc"]
EXPORTS = ["export problems", "export hub", "export runs"]
COMMANDS += ["plan", "rehearse", "verify", "decontaminate", "deploy", *EXPORTS]


def test_the_help_groups_the_commands():
    shown = in_process("--help")
    assert all(title in shown for title in ("─ Run ─", "─ Inspect ─", "─ Data ─", "─ Machines ─"))
    assert len(typer.main.get_command(app).commands) == 19  # pyright: ignore


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_with_an_example(command):
    shown = in_process(*command.split(), "--help")
    assert f"ratchet {command}" in re.sub(r"\s+", " ", shown.split("Example", 1)[1])


def test_what_the_system_says_of_a_file_is_one_line(tmp_path):
    with pytest.raises(OSError) as denied:
        (tmp_path / "none").read_text()
    assert in_words(denied.value) == f"{tmp_path / 'none'}: No such file or directory."
    assert in_words(OSError(errno.ENOSPC, "No space left on device")) == "No space left on device."
    assert in_words(ValueError("a defect of ours")) == in_words(OSError(errno.EPIPE, "Broken pipe")) == ""


def test_prefects_server_imports_nothing_from_the_working_directory(served):
    """It is one in whose directory the modules that it imports are a user's own."""
    with urllib.request.urlopen(served.keywords["PREFECT_API_URL"] + "/health") as answer:
        assert answer.status == 200


def test_a_server_that_does_not_start_says_why(tmp_path):
    argv = [sys.executable, "-c", "raise SystemExit('the port is taken')"]
    with (
        process_group(argv, tmp_path / "log", dict(os.environ)) as server,
        pytest.raises(RatchetError, match="Prefect server did not start: the port is taken"),
    ):
        wait_until_up("Prefect", "http://127.0.0.1:9/health", server, tmp_path / "log")


def test_a_prefect_server_that_refuses_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(RatchetError, match=r"http://127.0.0.1:9/api, does not answer .*Connection refused"):
        in_process("deploy", MINI, "--pool", "nope", "--home", tmp_path)


def test_the_shipped_recipes_are_listed_and_what_is_printed_is_a_recipe(tmp_path):
    assert "ablations/base" not in in_process("show", "recipes")
    listed = in_process("show", "recipes", "--full")
    assert {"tiny", "acereason-7b", "ablations/base"} <= {line.split()[0] for line in listed.splitlines()}
    assert "128 H100s" in listed and all(read_recipe(name).get("needs") for name in shipped_recipes())
    for arguments in (["ablations/prolonged"], ["tiny", "--full"], ["tiny", "--set", "seed=7"]):
        (tmp_path / "mine.yaml").write_text(in_process("show", *arguments))
        overrides = ["seed=7"] if "--set" in arguments else []
        assert load_recipe(tmp_path / "mine.yaml") == load_recipe(arguments[0], overrides)
    assert "extends" not in (tmp_path / "mine.yaml").read_text()
    with pytest.raises(RatchetError, match="Did you mean 'tiny'"):
        in_process("show", "tinny.yaml")


def test_the_version_the_help_and_a_recipe_come_at_once(ratchet):
    assert re.fullmatch(r"ratchet \d+\.\d+.*\n", ratchet("--version").stdout)
    code = """import sys, ratchet.cli.main
from ratchet.infra.recipe import load_recipe
load_recipe("tiny")
print({"torch", "prefect", "mlflow", "transformers", "pandas", "pyarrow", "numpy"} & set(sys.modules))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_shell_completes_recipes_steps_and_artifacts(typed, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)  # which names `python -m pytest`

    def completed(*words: str) -> str:
        return typed(_RATCHET_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=" ".join(["ratchet", *words])).stdout

    artifact = tmp_path / "artifacts" / "checkpoint" / "math-24-1a2b3c4d5e6f"
    artifact.mkdir(parents=True)
    (artifact / "manifest.json").write_text("{}")
    assert "tiny-prorl" in completed("run", "tiny") and "acereason" not in completed("run", "tiny")
    for command_of_a_recipe in (("plan",), ("preflight",), ("verify", "math", "--recipe")):
        assert "tiny-prorl" in completed(*command_of_a_recipe, "tiny-")
    assert "math500" in completed("evaluate", "tiny", "--benchmark", "math")
    assert "majority_vote" in completed("curate", "math", "--only", "maj")
    assert "checkpoint/math-24-1a2b3c4d5e6f" in completed("show", "--home", str(tmp_path), "check")


def test_debug_shows_the_traceback(typed, tmp_path):
    with pytest.raises(RatchetError):
        typed("--debug", "run", "tinny", "--home", tmp_path)


def test_a_port_in_use_is_named(typed, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = typed("ui", "--mlflow-port", port, "--home", tmp_path)
    assert done.returncode == 2 and f"Cannot listen on 127.0.0.1 port {port}" in done.stderr.replace("\n", " ")


def test_the_ui_serves_nothing_that_is_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example:5000")
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example:4200/api")
    shown = in_process("ui", "--home", tmp_path)
    assert "http://mlflow.example:5000 (MLFLOW_TRACKING_URI)" in shown
    assert "http://prefect.example:4200 (PREFECT_API_URL)" in shown and "`ratchet deploy`" in shown


ABSENT = ["--set", "training.engine={kind: vllm-server, url: 'http://127.0.0.1:9'}"]
ABSENT += ["--set", "curation.math.teacher={kind: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}"]
FAULTS = ["http://127.0.0.1:9/v1 cannot be reached", "cannot be used: there are no weights", "vLLM is not installed"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return grow_model(tmp_path_factory.mktemp("model"))


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_what_a_run_will_need_is_looked_for_before_its_first_step(model, tmp_path):
    weightless = shutil.copytree(model, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    arguments = ["run", MINI, "--home", tmp_path / "home", *ABSENT, "--set", f"model.path={weightless}"]
    with pytest.raises(RatchetError) as planned:  # exit code 2, so that CI can rely on a plan
        in_process(*arguments, "--dry-run")
    with pytest.raises(RatchetError) as raised:
        in_process(*arguments)
    assert str(planned.value) == str(raised.value) and all(fault in str(raised.value) for fault in FAULTS)
    assert str(raised.value).count("\n") == len(FAULTS) - 1 and not (tmp_path / "home" / "artifacts").exists()


def test_a_plan_names_what_does_not_fit_into_the_model(model, tmp_path):
    """Before the first step: also prompts of a benchmark that no step has read yet."""
    file = tmp_path / "test.jsonl"
    rows = [{"question": f"What is {n} plus {n + 1}? " * 40, "answer": str(2 * n + 1)} for n in range(1, 4)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = f"evaluation.benchmarks=[{{name: mini-math, domain: math, path: {file}, samples: 2}}]"

    def plan(setting):
        settings = (f"model.path={model}", benchmark, setting)
        words = [word for setting in settings for word in ("--set", setting)]
        return in_process("run", MINI, "--home", tmp_path / "home", *words, "--dry-run")

    for setting, said in {
        "training.stages.0.max_response_tokens=512": "math-24 has responses of up to 512 tokens, .* only 512 positions",
        "evaluation.max_tokens=512": "evaluation.max_tokens is 512, .* only 512 positions",
        "evaluation.max_tokens=450": "mini-math, row 0: a prompt of [0-9]+ tokens and a response of up to 450 need",
    }.items():
        with pytest.raises(RatchetError, match=said):  # exit code 2
            plan(setting)
    assert "steps would run" in plan("evaluation.max_tokens=64")


def test_an_endpoint_that_has_answered_before_is_waited_for(tmp_path):
    """One that never has is looked for: test_mistakes.py."""
    stored = tmp_path / "generations" / "tiny-math-0" / "settings.json"
    stored.parent.mkdir(parents=True)
    stored.write_text('{"model": "http://127.0.0.1:9/v1#m"}')
    asked = ("evaluate", MINI, "--dry-run", "--home", tmp_path, "--model", "http://127.0.0.1:9/v1#m")
    assert "reached" not in in_process(*asked)


def test_the_doctor_finds_nothing_wrong_here(typed, tmp_path):
    done = typed("doctor", "--home", tmp_path)
    assert "sandbox" in done.stdout and "torch" in done.stdout
    assert done.returncode == 0, done.stdout


def test_exported_problems_are_whole_and_what_is_left_out_is_said(typed, tmp_path):
    tests = ['[{"input": "1", "output": "2"}]', '[{"check": "def check(candidate): ..."}]']
    rows = [
        {"problem_id": str(n), "domain": "code", "prompt": "P?", "tests": text, "entry_point": None, "metadata": "{}"}
        for n, text in enumerate(tests)
    ]
    pq.write_table(to_table(rows), tmp_path / "kept.parquet")
    verl, taco = tmp_path / "verl", tmp_path / "taco"
    done = typed("export", "problems", tmp_path, "--validation", tmp_path, "--format", "verl", "--output", verl)
    assert done.returncode == 0 and "2 problems" in done.stdout and "left out" not in done.stdout, done.stderr
    for split in ("train", "validation"):
        row, other = pq.read_table(verl / f"{split}.parquet").to_pylist()
        assert row["extra_info"]["split"] == split and other["extra_info"]["index"] == 1
    assert "data.val_files=validation.parquet" in (verl / "README.md").read_text()
    done = typed("export", "problems", tmp_path, "--format", "verl", "--output", taco, "--data-source", "taco")
    assert "1 problems" in done.stdout and "left out 1: a test is a program" in done.stdout
    [row] = pq.read_table(taco / "train.parquet").to_pylist()
    assert row["data_source"] == "taco" and row["extra_info"]["problem_id"] == "0"
    failed = typed("export", "problems", verl, "--format", "trl", "--output", tmp_path / "other")
    assert failed.returncode == 2 and "is not a data set of problems" in failed.stderr
    assert not (tmp_path / "other").exists()


def test_a_local_file_that_hides_a_shipped_recipe_is_named(typed, tmp_path, monkeypatch):
    nothing_is_planned = ("plan", "tiny", "--machine", "none", "--home", tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    assert "is used" not in typed(*nothing_is_planned).stderr
    (tmp_path / "tiny.yaml").write_text("extends: 1.5b-1gpu\nname: mine\n")
    assert f"{tmp_path / 'tiny.yaml'} is used, not the shipped recipe of that name" in typed(*nothing_is_planned).stderr


def test_text_is_utf8_under_every_locale(tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: tiny\nname: mine\ndescription: Größe ≥ 3\n", encoding="utf-8")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    shown = subprocess.run(
        [sys.executable, "-P", "-m", "ratchet.cli.main", "show", "mine.yaml"], cwd=tmp_path, capture_output=True,
        env={**plain, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "Größe ≥ 3" in shown.stdout.decode("utf-8")


def test_a_folder_that_was_deleted_is_told_in_one_line(tmp_path):
    (gone := tmp_path / "gone").mkdir()
    command = f"cd {gone} && rmdir {gone} && exec {sys.executable} -P -m ratchet.cli.main show recipes"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("Error: The folder of this terminal has been deleted")


def test_a_prefect_server_that_falls_silent_during_a_run_is_told_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ratchet.cli.prefect_server.LOOK_S", 0.05)
    for name in ("PREFECT_API_URL", "PREFECT_HOME"):
        monkeypatch.setenv(name, "")  # what the command sets there goes again
    with Server(200) as server:
        monkeypatch.setenv("PREFECT_API_URL", f"{server.url}/api")
        with prefect_server(load_settings(tmp_path)):
            time.sleep(0.5)
            assert capsys.readouterr().err == ""
            server.status, said = 503, []
            assert happens(lambda: said.append(capsys.readouterr().err) or any(said))
            time.sleep(0.5)
            said.append(capsys.readouterr().err)
    assert "".join(said) == f"The Prefect server at {server.url}/api does not answer. Waiting for it …\n"
