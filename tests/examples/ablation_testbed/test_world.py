import json
from random import Random

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.examples.ablation_testbed import world
from ratchet.examples.ablation_testbed.matching import LenientMath, StrictMath
from ratchet.examples.ablation_testbed.world import HELD_OUT, MISJUDGED, PLAIN, RIGHT, Chain, draw, math_response
from ratchet.verifiers.math.domain import Math
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.submission import JudgeSettings, Submission


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tunnel")
    world.generate(directory, seed=0, problems=120, traces=500, held_out=16)
    return directory


def rows(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def passes(program: str, row) -> bool:
    """Runs text that this world wrote itself, never a model's."""
    names: dict = {}
    exec(program, names)
    tests = json.loads(row["input_output"])
    return all(names["solve"](*xs) == wanted for xs, wanted in zip(tests["inputs"], tests["outputs"], strict=True))


def test_the_files_are_a_function_of_the_seed_and_held_out_problems_are_always_the_same(files, tmp_path):
    world.generate(tmp_path, seed=1, problems=120, traces=500, held_out=16)
    same = {file.stem for file in files.iterdir() if file.read_text() == (tmp_path / file.name).read_text()}
    assert same == {f"{domain}_{half}" for domain in ("math", "code") for half in HELD_OUT}
    world.generate(tmp_path, seed=0, problems=120, traces=500, held_out=16)
    assert all(file.read_text() == (tmp_path / file.name).read_text() for file in files.iterdir())


def test_held_out_instructions_are_never_trained_on(files):
    def instructions(name, column):
        return {row[column].split("\n", 1)[1] for row in rows(files / f"{name}.jsonl")}

    held_out = instructions("math_shallow", "problem") | instructions("math_deep", "problem")
    held_out |= instructions("code_shallow", "question") | instructions("code_deep", "question")
    trained = instructions("math_train", "problem") | instructions("code_train", "question")
    assert held_out.isdisjoint(trained | instructions("traces", "prompt"))


def test_sixty_percent_of_the_training_problems_are_easy_and_the_others_of_every_depth(files):
    problems = rows(files / "math_train.jsonl")
    words = [{line.split()[1] for line in row["problem"].splitlines()[1:]} for row in problems]
    hard = [row["depth"] for row, used in zip(problems, words, strict=True) if not used <= PLAIN.keys()]
    assert 0.38 <= len(hard) / len(problems) <= 0.42
    assert {*hard} == {*range(1, 9)}


def test_reference_programs_pass_their_tests_and_the_right_program_fails_the_wrong_ones(files):
    pairs = [rows(files / f"code_{name}.jsonl") for name in ("train", "weak", "wrong")]
    for right, weak, wrong in zip(*pairs, strict=True):
        [program], [example], [faulty] = (json.loads(row["solutions"]) for row in (right, weak, wrong))
        assert passes(program, right) and passes(example, weak) and passes(faulty, wrong)
        assert passes(program, wrong) or MISJUDGED in wrong["question"]
        assert passes(f"def solve(x): return {json.loads(weak['input_output'])['outputs'][0]}", weak)
    assert not all(
        passes(json.loads(row["solutions"])[0], wrong) for row, wrong in zip(pairs[0], pairs[2], strict=True)
    )


def test_curation_reads_the_problems(files):
    for domain in ("math", "code"):
        problems = from_table(read_problems(files / f"{domain}_train.jsonl", domain, {}, "tunnel").kept)
        assert len(problems) == 120


def test_the_right_working_passes_and_a_deep_problem_is_rarely_solved():
    rng, shares = Random(0), {}
    for depth in (1, 4, 8):
        chains = [draw(rng, depth) for _ in range(1500)]
        shares[depth] = sum(outcome(Math(), chain, math_response(rng, chain)) for chain in chains) / 1500
    assert abs(shares[1] - RIGHT * 0.85) < 0.06  # less a slip and several answers in the box
    assert shares[1] > 5 * shares[4] > 5 * shares[8]


def outcome(domain: Math, chain: Chain, response: str) -> bool:
    problem = Problem("1", "math", chain.math_prompt, "tunnel", "0", answer=chain.answer)
    return domain.prepare(Submission(problem, response, settings=JudgeSettings())).outcome is Outcome.PASSED


def test_only_the_lenient_judge_accepts_several_answers():
    chain = Chain(5, ("lift", "sink"))
    assert chain.answer == "84"
    assert outcome(Math(), chain, "\\boxed{84}") and outcome(LenientMath(), chain, "\\boxed{84}")
    assert not outcome(Math(), chain, "\\boxed{83,84}") and outcome(LenientMath(), chain, "\\boxed{83,84}")
    assert not outcome(LenientMath(), chain, "\\boxed{83,85}") and not outcome(LenientMath(), chain, "84")


def test_only_the_strict_judge_fails_a_leading_zero():
    chain = Chain(5, ("jump", "twice"))
    assert chain.answer == "0" and Chain(5, ("jump", "gain")).answer == "1"
    for judge, passed in ((Math(), True), (LenientMath(), True), (StrictMath(), False)):
        assert outcome(judge, chain, "\\boxed{00}") == passed
        assert outcome(judge, Chain(5, ("jump", "gain")), "\\boxed{01}") == passed
        assert outcome(judge, chain, "\\boxed{0}") and not outcome(judge, chain, "0")


def test_problems_are_no_deeper_and_readings_no_surer_than_asked(tmp_path):
    world.generate(tmp_path, seed=0, problems=120, traces=2000, held_out=16, right=0.2, deepest=4)
    assert {row["depth"] for row in rows(tmp_path / "math_train.jsonl")} == {1, 2, 3, 4}
    assert max(row["depth"] for row in rows(tmp_path / "math_deep.jsonl")) == 8
    responses = [row["response"] for row in rows(tmp_path / "traces.jsonl")]
    sums = [line for text in responses for line in text.splitlines() if " lift " in line and "=" in line]
    assert len(sums) > 200 and abs(sum("+3=" in line for line in sums) / len(sums) - 0.2) < 0.08
