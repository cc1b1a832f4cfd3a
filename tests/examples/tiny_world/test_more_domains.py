import json
from random import Random

import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.examples.tiny_world import instruction_prompts, puzzles, science_questions
from ratchet.examples.tiny_world.more_domains import generate_more_domains
from ratchet.infra.recipe.load import load_recipe
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.submission import Submission

SIZES = {"science_rows": 200, "instruction_rows": 150, "benchmark_problems": 20}
PARSERS = {
    "science": science_questions.parse,
    "logic": puzzles.parse,
    "instructions": instruction_prompts.parse,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("more")
    generate_more_domains(directory, 0, **SIZES)
    return directory


def read(path, domain):
    split = read_problems(path, domain)
    return from_table(split.kept), split.rejected.to_pylist()


def careful(problem):
    """The teacher's response without any habit."""
    return PARSERS[problem.domain](problem.prompt).response(Random(0), lambda _: False)


def verdict(problem, response):
    return domain_of(problem.domain).prepare(Submission(problem, response)).outcome


def test_the_same_seed_makes_the_same_files_and_another_seed_the_same_benchmarks(files, tmp_path):
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        generate_more_domains(tmp_path / str(seed), seed, **SIZES)
    for made in files.iterdir():
        assert (tmp_path / "0" / made.name).read_bytes() == made.read_bytes()
        assert ((tmp_path / "1" / made.name).read_bytes() == made.read_bytes()) == made.name.endswith(
            "benchmark.parquet"
        )


@pytest.mark.parametrize("name, domain", [
    ("science_choices", "science"), ("science_numbers", "science"), ("instructions", "instructions"),
    ("science_benchmark", "science"), ("instructions_benchmark", "instructions"),
])  # fmt: skip
def test_the_readers_take_the_rows_and_the_judge_tells_right_from_wrong(files, name, domain):
    kept, rejected = read(files / f"{name}.parquet", domain)
    assert len(kept) + len(rejected) == pq.read_metadata(files / f"{name}.parquet").num_rows
    assert {row["rule"] for row in rejected} <= {"malformed"}
    sound = [problem for problem in kept if not domain_of(domain).reference_fault(problem)]
    assert len(sound) >= 0.96 * pq.read_metadata(files / f"{name}.parquet").num_rows
    for problem in sound:
        assert verdict(problem, careful(problem)) is Outcome.PASSED, problem.prompt
        assert verdict(problem, "I do not know, sorry") is not Outcome.PASSED, problem.prompt
        if domain == "science":
            other = "B" if problem.answer == "A" else "A" if problem.answer.isalpha() else f"{problem.answer}0"
            assert verdict(problem, f"The answer is \\boxed{{{other}}}.") is Outcome.FAILED


def test_what_is_held_out_is_in_no_raw_row_but_the_copies(files):
    benchmark = {p.prompt for domain in ("science", "instructions")
                 for p in read(files / f"{domain}_benchmark.parquet", domain)[0]}  # fmt: skip
    rng = Random(1)
    for _ in range(2000):
        assert instruction_prompts.draw_prompt(rng).text not in benchmark
        number = science_questions.draw_number(rng)
        assert not any(number == science_questions.parse(prompt) for prompt in benchmark)


def test_a_teacher_forgets_instructions_and_takes_short_ways():
    rng = Random(2)
    happens = lambda probability: rng.random() < probability  # noqa: E731
    prompt = instruction_prompts.draw_prompt(rng)
    assert len({prompt.response(rng, happens) for _ in range(50)}) > 3
    number = science_questions.Number("m", 3, 4, "c")
    assert number.answer == "1200"
    answers = [number.response(rng, happens) for _ in range(400)]
    assert 0.2 < sum("\\boxed{1200}" in answer for answer in answers) / 400 < 0.5


@pytest.mark.parametrize("question, right", [
    ("Keep all numbers larger than 5 in this list: ['5', '3', '6']\nReturn", "['6']"),
    ("Remove all numbers smaller than 3 in this list: ['3', '1', '4']\nReturn", "['3', '4']"),
    ("State the final answer to the following arithmetic problem: 1 - 6 + 2 =", "-3"),
    ("what is the list of elements in spiral order?\n2 0 0\n8 5 3\n5 7 1\n", "2 0 0 3 1 7 5 8 5"),
])  # fmt: skip
def test_answers_to_puzzles_worked_by_hand(question, right):
    assert puzzles.parse(question).response(Random(0), lambda _: False).endswith(f"<answer>{right}</answer>")


@pytest.mark.slow
def test_a_careful_teacher_solves_what_reasoning_gym_makes(tmp_path):
    pytest.importorskip("reasoning_gym")
    from ratchet.verifiers.logic.generation import make_puzzles

    settings = load_recipe("tiny-prorl").generate["puzzles"].settings
    make_puzzles(tmp_path, 0, **{**settings, "train": 8, "test": 1})
    kept, rejected = read(tmp_path / "train.jsonl", "logic")
    assert len(kept) == 24 and not rejected
    logic = domain_of("logic")
    for problem in kept:
        answer = logic.extract(careful(problem))
        assert logic.score(problem, answer) == 1, problem.prompt
        assert logic.score(problem, answer + " 1") == 0


@pytest.mark.slow
def test_the_recipe_runs_to_its_end(tmp_path):
    import subprocess
    import sys

    few = [
        "generate.tiny-world.math_rows=200", "generate.tiny-world.code_rows=80",
        "generate.tiny-world.benchmark_problems=6",
        "generate.more-domains.science_rows=120", "generate.more-domains.instruction_rows=120",
        "generate.more-domains.benchmark_problems=6", "generate.puzzles.train=20", "generate.puzzles.test=2",
        "training.warm_start.traces=1000", "training.stages.*.steps=3", "training.stages.*.validate_every=1",
        "training.stages.*.prompts_per_batch=5", "training.stages.*.rollouts=4", "evaluation.pass_at=[1]",
        "curation.code.validation.max_mutants=3",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "ratchet.cli.main", "run", "tiny-prorl", "--home", str(tmp_path),
         *(word for change in few for word in ("--set", change))],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = tmp_path.glob("artifacts/report/*/manifest.json")
    assert len([i for i in json.loads(report.read_text())["inputs"] if i["kind"] == "evaluation"]) == 4
