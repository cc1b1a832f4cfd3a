"""Declared experiments: a changed declaration is refused, failures are shown, and p-values are corrected."""

import json
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from ratchet.infra.recipe import load_recipe
from research import experiments
from research.ablations import Run, reading_entropy
from research.experiments import Experiment, Measured, Refused, facts, hold_to, holm, read, section

ROOT = Path(__file__).resolve().parents[1]
PREREGISTERED = sorted((ROOT / "research" / "preregistered").glob("*.yaml"))
SMALL = {
    "family": "small", "question": "Does it?", "seeds": [1, 2, 3], "why_seeds": "a test",
    "tuned": {"seeds": [9], "what": "nothing"}, "before": ["it was larger"],
    "experiments": [
        {
            "name": name, "hypothesis": f"{name} is {expected}", "paper": "table 1", "expected": expected,
            "matters": 0.05, "baseline": {"recipe": "a", "after": "start"}, "arm": {"recipe": "a", "after": "rl"},
            "measure": {"benchmark": "math"},
        }
        for name, expected in (("up", "higher"), ("down", "lower"), ("same", "not lower"))
    ],
}  # fmt: skip


def small(tmp_path: Path):
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return read(tmp_path / "small.yaml")


def rows(*pairs: tuple[float, float]) -> list[dict]:
    cost = {"million_tokens": 1.0, "minutes": 2.0}
    return [{"seed": i, "baseline": before, "arm": after, **cost} for i, (before, after) in enumerate(pairs, 1)]


def test_holm_corrects_as_in_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


RISES, FALLS = rows((0.1, 0.5), (0.1, 0.52), (0.12, 0.51)), rows((0.5, 0.1), (0.52, 0.1), (0.51, 0.12))
LEVEL, SLIGHTLY = rows((0.5, 0.501), (0.5, 0.499), (0.5, 0.5)), rows((0.5, 0.51), (0.5, 0.5101), (0.5, 0.5102))


def to(*after: float) -> list[dict]:
    return rows(*((0.5, value) for value in after))


@pytest.mark.parametrize(
    ("name", "measured", "verdict"),
    [
        ("up", RISES, "supported"),
        ("up", FALLS, "contradicted"),
        ("up", SLIGHTLY, "supported, but too small to matter"),
        ("down", FALLS, "supported"),
        ("down", LEVEL, "inconclusive"),
        ("down", SLIGHTLY, "contradicted"),
        ("same", LEVEL, "supported"),
        ("same", FALLS, "contradicted"),
        ("same", to(0.44, 0.441, 0.439), "contradicted"),  # lower by 0.06, and `matters` is 0.05
        ("same", to(0.46, 0.461, 0.459), "supported"),
        ("same", to(0.45, 0.451, 0.449), "inconclusive"),  # by exactly what matters
        ("same", to(0.3, 0.48, 0.5), "inconclusive"),
    ],
)
def test_verdicts_follow_the_declared_direction(tmp_path, name, measured, verdict):
    family, declaration = small(tmp_path)
    found = facts(family, declaration, dict.fromkeys(("up", "down", "same"), LEVEL) | {name: measured})
    assert found["results"][name]["verdict"] == verdict


def test_a_failed_seed_is_shown_counts_in_the_correction_and_hides_no_other(tmp_path):
    family, declaration = small(tmp_path)
    failed = [*RISES[:2], {"seed": 3, "failed": "a: the gradient is not finite"}]
    found = facts(family, declaration, {"up": RISES, "down": failed, "same": RISES})
    page = "\n".join(section(family, "small.yaml", found))
    assert found["results"]["down"]["verdict"] == "failed" and found["results"]["up"]["verdict"] == "supported"
    least = min(found["results"][name]["p"] for name in ("up", "same"))
    assert min(one["corrected"] for one in found["results"].values()) == pytest.approx(3 * least)
    assert "seed 3: a: the gradient is not finite" in page
    assert page.index("down is lower") < page.index("up is higher")  # what is inconclusive comes first
    assert "it was larger" in page


def test_a_changed_declaration_is_refused_with_what_changed(tmp_path):
    file, home = tmp_path / "small.yaml", tmp_path / "home"
    small(tmp_path)
    hold_to(file, home)
    hold_to(file, home)  # again
    file.write_text(file.read_text().replace("matters: 0.05", "matters: 0.01"))
    with pytest.raises(
        Refused, match=r"(?s)has changed since its seeds were touched.*-.*matters: 0.05.*\+.*matters: 0.01"
    ):
        hold_to(file, home)


def test_an_unknown_field_is_named(tmp_path):
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump({**SMALL, "seed": [1]}))
    with pytest.raises(Refused, match=r"(?s)wrong.yaml is not a declaration.*seed"):
        read(tmp_path / "wrong.yaml")


def evaluated(directory: Path, *responses: tuple[str, str, str]) -> Path:
    """An evaluation with (question, outcome, text) of `math-deep`."""
    directory.mkdir()
    rows = pd.DataFrame(responses, columns=["problem_id", "outcome", "text"]).assign(benchmark="math-deep")
    rows.to_parquet(directory / "generations.parquet")
    questions = (
        rows[["benchmark", "problem_id"]].drop_duplicates().assign(prompt="x=5 on a ring of ten.\na lift\nb sink")
    )
    questions.to_parquet(directory / "questions.parquet")
    return directory


def test_the_entropy_of_readings_is_that_of_the_operations_and_not_of_fillers(tmp_path):
    def entropy(name: str, *texts: str) -> float:
        evaluation = evaluated(tmp_path / name, *(("1", "passed", text) for text in texts))
        return reading_entropy(Run([], 0.0, {}, None, evaluation))

    sure, torn = "wait\na lift 5+3=8\nb gain 8+1=9\n", "so\na lift 5+2=7\n"
    assert entropy("one", sure, "now\n" + sure) == 0.0
    assert entropy("two", sure, torn) == pytest.approx(math.log(2))
    assert entropy("another word", sure, torn, "a sink 5-4=1\n") == pytest.approx(math.log(2) / 2)


def test_of_what_the_start_never_solved_the_solved_share_counts(tmp_path):
    start = evaluated(tmp_path / "start", *((q, "failed", "") for q in "abc"), ("c", "passed", ""))
    now = evaluated(tmp_path / "now", *((q, "failed", "") for q in "bc"), ("a", "failed", ""), ("a", "passed", ""))
    measure = Measured(never_solved="math-deep").measure
    assert measure(Run([], 0.0, {}, start, now)) == 0.5  # of a and b; c is not counted
    assert measure(Run([], 0.0, {}, now, start)) == 0.5  # b and c: the other way round
    assert measure(Run([], 0.0, {}, None, now)) is None


@pytest.mark.parametrize("file", PREREGISTERED, ids=lambda file: file.stem)
def test_what_is_declared_can_run(file):
    family, _ = read(file)
    assert family.family == file.stem and not set(family.seeds) & set(family.tuned.seeds)
    for arm in (arm for experiment in family.experiments for arm in (experiment.baseline, experiment.arm)):
        recipe = load_recipe(arm.recipe)
        assert arm.after in recipe.evaluation.after
    names = {benchmark.name for benchmark in recipe.evaluation.benchmarks}
    assert {e.measure.benchmark for e in family.experiments if e.measure.benchmark} <= names


@pytest.mark.parametrize("file", sorted(experiments.FACTS.glob("*.json")), ids=lambda file: file.stem)
def test_the_page_has_what_the_artifacts_gave_and_no_other_declaration(file):
    registered = f"research/preregistered/{file.stem}.yaml"
    family, declaration = read(ROOT / registered)
    found = json.loads(file.read_text())
    rows = {name: one["seeds"] for name, one in found["results"].items()}
    assert found == facts(family, declaration, rows, found.get("cpu_minutes"))
    assert "\n".join(section(family, registered, found)) in (ROOT / "docs" / "evidence" / "findings.md").read_text()


def test_the_overview_of_the_page_counts_every_family_and_names_those_that_wait():
    lines = "\n".join(experiments.overview())
    assert lines in (ROOT / "docs" / "evidence" / "findings.md").read_text()
    assert all(file.stem in lines for file in PREREGISTERED)


@pytest.mark.slow
def test_a_family_runs_and_its_artifacts_carry_its_hash(tmp_path, monkeypatch):
    """Two seeds of the mini recipe; then an artifact that was made under no declaration is refused."""
    mini = ROOT / "tests" / "flows" / "mini.yaml"
    ends = {"baseline": {"recipe": str(mini), "after": "start"}, "arm": {"recipe": str(mini), "after": "code-32"}}
    one = SMALL["experiments"][0] | ends | {"measure": {"benchmark": "mini-math"}}
    broken = one | {"name": "broken", "arm": {"recipe": "no-such-recipe", "after": "start"}}
    file = tmp_path / "mini.yaml"
    file.write_text(yaml.safe_dump(SMALL | {"family": "mini", "seeds": [1, 2], "experiments": [one, broken]}))
    family, declaration = read(file)
    hold_to(file, tmp_path / "home")
    found = facts(family, declaration, experiments.run_family(family, tmp_path / "home", declaration))
    assert [set(row) >= {"baseline", "arm", "minutes"} for row in found["results"]["up"]["seeds"]] == [True, True]
    assert found["results"]["broken"]["verdict"] == "failed"
    assert "no-such-recipe" in found["results"]["broken"]["seeds"][0]["failed"]

    monkeypatch.delenv("RATCHET_DECLARATION", raising=False)
    shutil.rmtree(next((tmp_path / "home" / "1" / "artifacts" / "evaluation").glob("code-32-*")))
    assert not experiments.train(str(mini), 1, tmp_path / "home" / "1", "")
    with pytest.raises(Refused, match="made under no declaration"):
        experiments.result(Experiment.model_validate(one).arm, 1, tmp_path / "home" / "1", declaration)
