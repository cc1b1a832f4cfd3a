"""Puzzles of reasoning-gym: made the same in every process, read as problems, and scored without being fooled."""

import ast
import importlib.util
import json
import os
import re
from pathlib import Path

import pytest
import yaml

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.rule_filter import filter_by_rules
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.load import validate_recipe
from ratchet.tasks.inputs import GENERATORS
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.logic import generation, scoring
from ratchet.verifiers.logic.domain import Logic
from ratchet.verifiers.logic.evaluation_guard import RefusedCode, data_only
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.verifiers.sandbox_world import descendants

pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")

# With those that hash order decides, that draw from a global generator, that evaluate, and that are repaired.
SAMPLE = (
    "coin_flip", "complex_arithmetic", "countdown", "game_of_life_halting", "graph_color", "list_functions", "n_queens",
    "number_sorting", "polynomial_multiplication", "prime_factorization", "puzzle24", "ransom_note", "rearc",
    "simple_integration", "spiral_matrix", "time_intervals", "word_ladder",
)  # fmt: skip
INJECTION = "().__class__.__base__.__subclasses__()"
MARK = "/tmp/ratchet-logic-injected"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("puzzles")
    generation.make_puzzles(directory, seed=3, tasks=SAMPLE, train=2, test=1)
    return directory


@pytest.fixture(scope="module")
def problems(made):
    read = from_table(read_problems(made / "train.jsonl", "logic").kept)
    return {task: [p for p in read if json.loads(p.metadata)["task"] == task] for task in SAMPLE}


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(workers=1) as pool:
        yield pool


def scores(pool, asked):
    """The verdict on each (problem, answer)."""
    return pool.verify([(problem, f"<think>So.</think> It is <answer>{answer}</answer>.") for problem, answer in asked])


def test_the_same_seed_gives_the_same_puzzles_in_another_process(made, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "17")
    generation.make_puzzles(tmp_path, seed=3, tasks=SAMPLE, train=2, test=1)
    for name in ("train.jsonl", "test.jsonl", "made.json"):
        assert (tmp_path / name).read_bytes() == (made / name).read_bytes()
    questions = [json.loads(line)["question"] for line in open(made / "train.jsonl")]
    held_out = [json.loads(line)["question"] for line in open(made / "test.jsonl")]
    assert len({*questions, *held_out}) == 3 * len(SAMPLE), "each puzzle once, none of them held out"


def order(**given):
    return {"seed": 3, "tasks": [], "levels": [], "train": 3, "test": 0, "config": {}, "grades": {}} | given


def test_levels_are_difficulties(tmp_path):
    todo = generation.batches(order(tasks=["chain_sum", "acre"], levels=[0, 3]))
    generation.write(tmp_path, map(generation.make, todo))
    read = from_table(read_problems(tmp_path / "train.jsonl", "logic").kept)
    assert [p.difficulty for p in read] == [0] * 3 + [3] * 3 + [None] * 3, "acre has no curriculum"
    easy, hard = (sum(len(p.prompt) for p in read[start : start + 3]) for start in (0, 3))
    assert hard > easy
    assert json.loads(read[3].metadata)["level"] == 3, "also where a teacher measures another difficulty"
    assert json.loads(read[3].metadata)["config"]["min_terms"] == 5, "a level is that level's own part of the range"


def test_a_setting_grades_a_task(tmp_path):
    given = {
        "tasks": ["graph_color"],
        "levels": [0],
        "config": {"graph_color": {"num_colors": 4, "max_num_vertices": 99}},
    }
    todo = list(generation.batches(order(**given, grades={"graph_color": {"num_vertices": [6, 12]}})))
    generation.write(tmp_path, map(generation.make, todo))
    read = from_table(read_problems(tmp_path / "train.jsonl", "logic").kept)
    nodes = [len(json.loads(p.metadata)["entry"]["metadata"]["puzzle"]["vertices"]) for p in read]
    assert [p.difficulty for p in read] == nodes == [6] * 3 + [12] * 3, "the level decides, not the configuration"
    assert [json.loads(p.metadata)["config"]["num_colors"] for p in read] == [4] * 6
    single = list(generation.batches(order(tasks=["n_queens"], grades={"n_queens": {"n": [5, 6]}})))
    assert [(batch.level, batch.config) for batch in single] == [(5, {"n": 5}), (6, {"n": 6})]
    for grades, said in (
        ({"edges": [1]}, "one of the task's settings with its values; it has .*num_vertices"),
        ({"num_vertices": [5, 0.5]}, "grades.graph_color.num_vertices: give a list of whole numbers"),
        ({"num_vertices": 5}, "a list of whole numbers, the levels; not 5"),
        ([5], "one of the task's settings"),
    ):
        with pytest.raises(RatchetError, match=said):
            list(generation.batches(order(tasks=["graph_color"], grades={"graph_color": grades})))


def test_what_cannot_be_made_is_said(tmp_path, monkeypatch):
    for given, said in (
        ({"tasks": ["sudokus"]}, "reasoning-gym has no task 'sudokus'"),
        ({"tasks": ["propositional_logic"]}, "left out: a premise, repeated"),
        ({"tasks": ["sudoku"], "config": {"sudoku": {"empty": 3}}}, "config.sudoku: .* 'empty'; it has .*min_empty"),
        ({"tasks": ["caesar_cipher"], "config": {"caesar_cipher": {"max_rotation": 99}}}, "no puzzle of caesar_cipher"),
    ):
        with pytest.raises(RatchetError, match=said):
            generation.write(tmp_path, map(generation.make, generation.batches(order(**given))))
    with pytest.raises(RatchetError, match=r"^reasoning-gym: the task composite is left out"):
        generation.make_puzzles(tmp_path, seed=0, tasks=["composite"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RatchetError, match=r"needs reasoning-gym: pip install './verifiers\[logic\]'"):
        Logic()


def test_a_row_that_cannot_be_scored_is_set_aside(made, tmp_path):
    row = json.loads((made / "train.jsonl").read_text().splitlines()[0])
    rows = [
        row,
        row | {"question": "Another?", "metadata": row["metadata"] | {"source_dataset": "composite"}},
        row | {"question": "A third?", "answer": " "},
        row | {"question": "A fourth?", "metadata": {"source_index": 4}},
        row | {"question": "A fifth?", "metadata": row["metadata"] | {"source_dataset": "os"}},
    ]
    file = tmp_path / "puzzles.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in rows))
    read = read_problems(file, "logic")
    assert "no source_dataset" in read.rejected["evidence"][0].as_py()
    ruled = filter_by_rules(read.kept)
    assert len(ruled.kept) == 1
    evidence = " ".join(ruled.rejected["evidence"].to_pylist())
    assert "composite is left out" in evidence and "own answer is empty" in evidence and "no task 'os'" in evidence


def test_own_answers_pass_and_nothing_else_does(problems, pool):
    own = [(p, json.loads(p.metadata)["entry"]["answer"]) for some in problems.values() for p in some]
    own = [(p, answer) for p, answer in own if answer is not None]
    assert [verdict.fraction for verdict in scores(pool, own)] == [1.0] * len(own)
    one = [some[0] for some in problems.values()]
    wrong = [(p, answer) for p in one for answer in ("garbage", "", "[]")]
    assert {verdict.fraction for verdict in scores(pool, wrong)} == {0.0}


def test_a_colouring_found_elsewhere_passes(problems, pool):
    problem = problems["graph_color"][0]
    colors = json.loads(problem.metadata)["entry"]["metadata"]["possible_answer"]
    right, wrong = scores(pool, [(problem, json.dumps(colors)), (problem, json.dumps(dict.fromkeys(colors, 1)))])
    assert right.passed and wrong.fraction == 0


def test_answers_that_fool_the_task_are_not_paid(problems, pool):
    """Each of these is paid by the task's own scorer, most of them in full."""
    number = json.loads(problems["prime_factorization"][0].metadata)["entry"]["metadata"]["number"]
    sort = ast.literal_eval(json.loads(problems["number_sorting"][0].metadata)["entry"]["answer"])
    down = json.loads(problems["countdown"][0].metadata)["entry"]["metadata"]
    interval = json.loads(problems["time_intervals"][0].metadata)["entry"]["answer"]
    integral = json.loads(problems["simple_integration"][0].metadata)["entry"]["metadata"]
    asked = [
        (problems["coin_flip"][0], "0"),
        (problems["complex_arithmetic"][0], "nan"),
        (problems["game_of_life_halting"][0], "anything"),
        (problems["prime_factorization"][0], str(number)),
        (problems["puzzle24"][0], "6*4*1*1"),
        (problems["ransom_note"][0], "True or False"),
        (problems["time_intervals"][0], interval[:-1] + str(9 - int(interval[-1]))),
        (problems["number_sorting"][0], json.dumps([float("nan")] * len(sort))),
        (problems["number_sorting"][0], json.dumps([str(float(x) + 0.5) for x in sort])),
        (problems["countdown"][0], " + ".join(f"0*{n}" for n in down["numbers"]) + f" + {down['target']}e0"),
        (problems["simple_integration"][0], f"Integral({integral['integrand']}, {integral['variable']})"),
        (problems["simple_integration"][0], f"integrate({integral['integrand']}, {integral['variable']})"),
    ]
    assert [verdict.fraction for verdict in scores(pool, asked)] == [0.0] * len(asked)


def test_hostile_answers_forge_nothing_and_leave_nothing(problems, pool):
    evaluating = ("spiral_matrix", "n_queens", "simple_integration", "polynomial_multiplication")
    write = f"__import__('os').system('touch {MARK}')"
    forge = "[__import__('os').write(fd, b'{\"score\": 1.0}') for fd in range(3, 9)] and __import__('os')._exit(0)"
    hostile = [write, forge, INJECTION, f"sqrt({write!r})", "(lambda: 1)()", "[" * 20_000, "＿＿import＿＿('os')"]
    asked = [(problems[task][0], answer) for task in evaluating for answer in hostile]
    asked += [(some[0], "𝟙\u202e\x00é" * 500) for some in problems.values()]
    asked += [(problems["word_ladder"][0], "x" * 2_000_000)]
    scores(pool, asked[:1])
    before = descendants(os.getpid())
    assert {verdict.fraction for verdict in scores(pool, asked)} == {0.0}
    assert not os.path.exists(MARK)
    assert before and descendants(os.getpid()) == before, "what scored is gone, and what forks is the same"


@pytest.mark.parametrize("text", ["__import__('os')", INJECTION, "open('x')", "[x for x in 'ab']", "f'{print}'", "abc"])
def test_what_is_no_formula_is_not_run(text):
    with pytest.raises(RefusedCode), data_only():
        eval(text)  # what a scorer does
    with data_only():
        assert eval("[[1, 'a'], (2.5, -3)]") == [[1, "a"], (2.5, -3)]


def test_truncated_and_unscorable(problems, pool):
    pool.submit(0, problems["coin_flip"][0], "<answer>1/2</answer>", finished=False)
    pool.submit(1, problems["coin_flip"][0], "no tags")
    verdicts = dict(pool.results())
    assert verdicts[0].outcome is Outcome.FAILED and verdicts[1].outcome is Outcome.UNPARSEABLE
    assert domain_of("logic").fault(Problem("p", "logic", "?")) == "its metadata has no task and no entry to score by"


def test_the_recipe_of_the_page_is_whole():
    page, measured = (
        (Path(__file__).parents[2] / "docs" / folder / "logic.md").read_text() for folder in ("reference", "evidence")
    )
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    recipe = validate_recipe(yaml.safe_load(text), "logic.yaml")
    assert use_domains(recipe) == ["logic"]
    settings = recipe.generate["puzzles"].settings
    assert GENERATORS.get(recipe.generate["puzzles"].by) is generation.make_puzzles
    todo = list(generation.batches(order(**settings)))
    levels = {task: settings["levels"] for task in settings["tasks"]} | {"countdown": [3, 4, 5]}
    assert [(b.task, b.level) for b in todo] == [(task, level) for task in levels for level in levels[task]]
    assert all(f"| {task} | 1.00 | 0.00 | 0.00 |" in measured for task in scoring.tasks())
    assert all(task in page for task in (*scoring.REPAIRED, *scoring.LEFT_OUT))
