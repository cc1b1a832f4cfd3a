import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.split import REJECTED_SCHEMA
from ratchet.data_curation.trace_files import read_traces
from ratchet.flows.runs import open_run
from ratchet.infra.recipe.recipe import Recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks import traces
from ratchet.tasks.report import _prompt_sections
from ratchet.tasks.reporter import ProgressReporter
from ratchet.tasks.traces import own_traces, warm_start_traces, without_held_out
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import problem_id

SHEEP = "A farmer has 17 sheep and all but nine of them wander off in the stormy night, so how many are left at home?"
LAMPS = "In how many ways can five red and three blue lamps be hung in a row so that no two blue ones are neighbors?"


def test_traces_of_held_out_problems_are_set_aside_whatever_stands_around_them(tmp_path):
    path = tmp_path / "t.jsonl"
    prompts = [f"Solve this. {SHEEP.upper()} Reason step by step.", LAMPS]
    path.write_text("\n".join(json.dumps({"prompt": prompt, "response": "9"}) for prompt in prompts))
    traces, _ = read_traces(path, "t", "math", lambda problem: problem.prompt, {})
    row = {"domain": "math", "source": "b", "source_id": "7", "problem_id": problem_id("math", SHEEP), "prompt": SHEEP}
    left, rejected = without_held_out(traces, [(to_table([row]), Decontamination())])
    assert [trace.prompt for trace in left] == [LAMPS]
    [gone] = rejected
    assert (gone["source"], gone["source_id"], gone["step"]) == ("t", "0", "decontaminate")
    assert json.loads(gone["evidence"])["item"] == "7"


SUM = "What is 1 plus 3? Count slowly."
ASKED = SUM + "\n\nReason step by step and put the final answer in \\boxed{}."


class Warned(ProgressReporter):
    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)


TWO = {"math": {}, "code": {}}


def traces_of(tmp_path, start: dict, curation: dict = TWO) -> list[dict]:
    recipe = Recipe.model_validate({"name": "t", "training": {"warm_start": start}, "curation": curation})
    with open_run(recipe, load_settings(tmp_path / "home"), "t", Warned()) as run:
        return pq.read_table(own_traces(run, recipe.training.warm_start, [*curation]).kept).to_pylist()


def written(path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_each_domain_has_files_of_its_own(tmp_path):
    math = [{"question": f"What is {n} plus 3?", "answer": f"It is {n + 3}.\n#### {n + 3}"} for n in range(6)]
    code = {"task_id": 1, "text": "Write a function to add one.", "code": "def add(n):\n    return n + 1"}
    code |= {"test_list": ["assert add(1) == 2", "assert add(2) == 3"]}
    files = {"math": [written(tmp_path / "m.jsonl", math)], "code": [written(tmp_path / "c.jsonl", [code])]}
    rows = traces_of(tmp_path, {"files": files, "traces": 100})
    assert [row["domain"] for row in rows] == ["math"] * 6 + ["code"]
    assert "def add(n):" in rows[-1]["prompt"] and rows[-1]["response"].startswith("```python\ndef add(n):")
    assert "\\boxed{" in rows[0]["prompt"] and rows[0]["response"].endswith("\\boxed{3}")
    rows = traces_of(tmp_path, {"files": files, "traces": 4, "batch_size": 2, "mix": {"math": 3, "code": 1}})
    assert [row["domain"] for row in rows] == ["math"] * 3 + ["code"]


def test_a_column_names_the_domain_of_each_row(tmp_path):
    rows = [{"input": "Sum?", "output": "4", "kind": "math"}, {"input": "Sort.", "output": "x", "kind": "code"}]
    file = written(tmp_path / "t.jsonl", [*rows, {"input": "Hi", "output": "Hi", "kind": "chat"}])
    columns = {"prompt": "input", "response": "output", "domain": "kind"}
    got = traces_of(tmp_path, {"files": [file], "columns": columns, "batch_size": 2})
    assert [(row["domain"], row["prompt"]) for row in got] == [("math", "Sum?"), ("code", "Sort.")]


def test_another_name_and_an_unreadable_held_out_row_are_looked_at_again(tmp_path):
    rows = [{"input": SHEEP, "output": "9"}, {"input": LAMPS, "output": "6"}]
    columns = {"prompt": "input", "response": "output"}
    seen = []
    for name, held_out in (("a", SHEEP), ("a", LAMPS), ("b", LAMPS)):
        items = [{"problem": "What is 1 plus 3?", "answer": "4"}, {"problem": held_out, "answer": {"parts": [1, {}]}}]
        curation = {"math": {"benchmarks": [written(tmp_path / "test.jsonl", items)]}}
        start = {"files": [written(tmp_path / f"{name}.jsonl", rows)], "columns": columns, "batch_size": 1}
        seen += [(row["source"], row["prompt"]) for row in traces_of(tmp_path, start, curation)]
    assert seen == [("a", LAMPS), ("a", SHEEP), ("b", SHEEP)]


@pytest.mark.parametrize(("start", "said"), [
    ({"files": ["t.jsonl"]}, r"files: {math: \[FILE\]}"),
    ({"files": {"logic": ["t.jsonl"]}}, "training.warm_start.files: logic: .* math, code"),
])  # fmt: skip
def test_files_whose_domain_is_not_known_are_refused(tmp_path, monkeypatch, start, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RatchetError, match=said):
        traces_of(tmp_path, start)


@pytest.mark.parametrize(("mix", "said", "left"), [
    ({"math": 1, "code": 1}, "of 4 traces 0 of code, not 2", 4),
    ({"math": 3}, "", 4),
    ({"code": 1}, "the files have no trace of code", None),
    ({"logic": 1}, "mix: logic: the recipe t has the domains math, code", None),
])  # fmt: skip
def test_a_mix_that_the_files_cannot_give_is_said(tmp_path, mix, said, left):
    rows = [{"prompt": f"What is {n} plus 3?", "response": str(n)} for n in range(4)]
    files = {"math": [written(tmp_path / "m.jsonl", rows)]}
    start = {"files": files, "traces": 8, "batch_size": 2, "mix": mix}
    recipe = Recipe.model_validate({"name": "t", "training": {"warm_start": start}, "curation": TWO})
    reporter, problems = Warned(), {name: Artifact("problems", name, name, tmp_path) for name in TWO}
    with open_run(recipe, load_settings(tmp_path / "home"), "t", reporter) as run:
        if left is None:
            with pytest.raises(RatchetError, match=said):
                warm_start_traces(run, problems)
            return
        assert warm_start_traces(run, problems).manifest.counts["traces"] == left
    shares = [words for words in reporter.warnings if "warm_start.mix" in words]
    assert len(shares) == bool(said) and all(said in words for words in shares)


@pytest.mark.parametrize("template", ["as_written", "recipe"])
def test_user_turns_of_chats_are_those_of_training_or_it_is_said_how_they_differ(tmp_path, template):
    file, reporter = tmp_path / "t.jsonl", Warned()
    chats = [
        [{"role": "user", "content": text}, {"role": "assistant", "content": "\\boxed{4}"}] for text in (ASKED, SUM)
    ]
    file.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    start = {"files": [str(file)], "domain": "math", "template": template}
    recipe = Recipe.model_validate({"name": "t", "training": {"warm_start": start}, "curation": {"math": {}}})
    with open_run(recipe, load_settings(tmp_path / "home"), "t", reporter) as run:
        traces = own_traces(run, recipe.training.warm_start, ["math"])
        [section] = _prompt_sections([traces])
    learned = pq.read_table(traces.kept).column("prompt").to_pylist()
    if template == "recipe":
        assert learned == [ASKED, ASKED] and not reporter.warnings and section.folded
        return
    assert learned == [ASKED, SUM]
    [warning] = reporter.warnings
    assert (
        "1 of 2 user turns" in warning and repr(SUM) in warning and "boxed" in warning and "template: recipe" in warning
    )
    assert section.table == [{"warm start": SUM, "training and evaluation": ASKED}] and not section.folded


@pytest.mark.parametrize(("rows", "wanted", "asked"), [(100, 10, [10, 20]), (12, 10, [10, 20]), (4, 2, [2, 4])])
def test_a_teacher_is_asked_no_more_problems_than_it_takes(tmp_path, monkeypatch, rows, wanted, asked):
    seen = []

    class HalfTruncated:
        def __init__(self, teacher, problems, prompt, seed, home, only=()):
            self.only = only

        def check(self):
            pass

        def collect(self, draft, reporter):
            seen.append(len(self.only))
            ends = {name: "stop" if number % 2 else "length" for number, name in enumerate(sorted(self.only))}
            found = [{"problem_id": n, "sample": 0, "response": n, "finish_reason": end} for n, end in ends.items()]
            pq.write_table(pa.Table.from_pylist(found), draft.path / "kept.parquet")

    monkeypatch.setattr(traces, "TeacherAttempts", HalfTruncated)
    ids = [f"p{number:03}" for number in range(rows)]
    about = {"domain": "math", "prompt": "What is it?", "metadata": "{}"}
    start = {"traces": wanted, "batch_size": 1, "teacher": {"kind": "openai", "model": "m"}}
    recipe = Recipe.model_validate({"name": "t", "training": {"warm_start": start}, "curation": {"math": {}}})
    with open_run(recipe, load_settings(tmp_path / "home"), "t", Warned()) as run:
        read = run.store.locate("problems", "math", "0" * 64)
        with run.store.draft(read, resumable=False) as draft:
            table = to_table([about | {"problem_id": name} for name in ids])
            draft.write_dataset(table, REJECTED_SCHEMA.empty_table(), rows)
            run.store.finish(read, draft, step="curated", step_version=1, parameters={}, inputs=[], started_at=0.0)
        made = traces.teacher_traces(run, recipe.training.warm_start, {"math": read})
    assert seen == [min(count, rows) for count in asked]
    found = pq.read_table(made.kept)["problem_id"].to_pylist()
    assert found == ids[1::2][:wanted]


def test_files_are_named_by_folders_and_globs_too(tmp_path):
    for domain in ("math", "code"):
        (tmp_path / domain).mkdir()
        for number in range(2):
            written(tmp_path / domain / f"{number}.jsonl", [{"prompt": f"{domain} {number}?", "response": "x"}] * 2)
    files = {"math": [str(tmp_path / "math/*.jsonl"), str(tmp_path / "math/0.jsonl")], "code": [str(tmp_path / "code")]}
    rows = traces_of(tmp_path, {"files": files, "batch_size": 1})
    assert [(row["domain"], row["prompt"]) for row in rows[::2]] == [
        ("math", "math 0?"), ("math", "math 1?"), ("code", "code 0?"), ("code", "code 1?"),
    ]  # fmt: skip


def test_a_contaminated_row_takes_no_row_of_a_file_with_the_same_stem_along(tmp_path):
    rows = [{"prompt": SHEEP, "response": "9"}, {"prompt": LAMPS, "response": "20"}]
    written(tmp_path / "train.jsonl", rows)
    (tmp_path / "train.json").write_text(json.dumps([{"prompt": "How high is it?", "response": "6 m"}] * 2))
    curation = {"math": {"benchmarks": [written(tmp_path / "test.jsonl", [{"problem": SHEEP, "answer": "9"}])]}}
    got = traces_of(tmp_path, {"files": [str(tmp_path / "train.*")], "batch_size": 1}, curation)
    assert [row["source"] for row in got] == ["train.json", "train.json", "train.jsonl"]
