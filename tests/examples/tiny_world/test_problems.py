"""Problems of both kinds: their texts, values, tests and rewordings."""

import ast
import re
from random import Random

import pytest

from ratchet.examples.tiny_world import code_problems, math_problems
from ratchet.examples.tiny_world.code_problems import PIECES, Task
from ratchet.examples.tiny_world.math_problems import OPENINGS, QUESTIONS, Chain, Step
from ratchet.examples.tiny_world.rewording import exchange_ending, exchange_opening, introduce, mistype, retypeset


def _drawn(kind, seed, count):
    rng = Random(seed)
    for i in range(count):
        yield kind.draw_problem(rng, kind.LEVELS[i % len(kind.LEVELS)])


def _execute(program: str, xs: list[int]):
    """Runs text written by this world itself, not by a model or a data set."""
    names: dict = {}
    exec(program, names)
    return names["solve"](xs)


def test_every_value_is_a_digit_and_every_text_reads_back():
    for i, problem in enumerate(_drawn(math_problems, 0, 1000)):
        assert problem.level == math_problems.LEVELS[i % 5]
        assert all(0 <= value <= 9 for value in problem.chain.values())
        text = f"Solve this. {problem.prompt}\n\nReason step by step: 2 of 3."
        assert math_problems.parse(text) == problem.chain
    for problem in _drawn(code_problems, 2, 500):
        text = f"{problem.prompt}\n\nWrite Python code, in one fenced block."
        assert code_problems.parse(text) == problem.task
        ast.parse(problem.golden_solution)
    assert math_problems.parse("Is 5 prime?") is code_problems.parse("Write a program that sorts.") is None


def test_values_worked_by_hand():
    chain = Chain(5, (Step("+", 4), Step("-", 5), Step("*", 2)))
    assert chain.values() == [5, 9, 4, 8]
    assert chain.answer == "8"
    task = Task((("above", 2), ("square", 0), ("maximum", 1)))
    assert task.run([1, 3, 2]) == 9
    assert task.run([]) == 1
    assert task.run([2], replaced=0, mistake=0) == 4
    assert task.run([], replaced=2, mistake=0) is None


def test_markup_and_white_space_do_not_change_the_problem():
    chain = Chain(5, (Step("+", 4), Step("*", 2)))
    assert math_problems.parse("Start at 5. Step 1: add 4. Step 2: double. Total?") == chain
    assert math_problems.parse("START AT  $5$.\nstep 1: add \\(4\\).\nstep 2: \\text{double}. Total?") == chain


@pytest.mark.parametrize(("kind", "part", "count"), [(math_problems, "chain", 5000), (code_problems, "task", 600)])
def test_benchmark_and_training_never_share_a_problem(kind, part, count):
    benchmark = kind.benchmark_problems(64)
    held_out = {getattr(problem, part) for problem in benchmark}
    assert len(held_out) == 64
    counts = [sum(problem.level == level for problem in benchmark) for level in kind.LEVELS]
    assert max(counts) - min(counts) <= 1
    assert held_out.isdisjoint(getattr(problem, part) for problem in _drawn(kind, 1, count))
    assert benchmark == kind.benchmark_problems(64)


def test_a_benchmark_larger_than_the_one_step_chains_has_no_text_twice():
    prompts = [problem.prompt for problem in math_problems.benchmark_problems(200)]
    assert len(set(prompts)) == 200


def test_golden_solutions_pass_their_tests():
    for problem in _drawn(code_problems, 0, 150):
        assert len(problem.tests) >= 6
        assert problem.tests[0][0] == ()
        for xs, wanted in problem.tests:
            assert _execute(problem.golden_solution, list(xs)) == wanted


def test_tests_notice_a_dropped_operation_and_each_mistake_that_matters():
    for problem in _drawn(code_problems, 1, 150):
        task, tests = problem.task, problem.tests
        for part in range(task.level):
            assert any(task.run(list(xs), part) != wanted for xs, wanted in tests)
        assert any(task.run(list(xs), *fault) != wanted for fault in task.mistakes() for xs, wanted in tests)


def test_the_meaning_of_a_mistake_is_that_of_its_code():
    for name, piece in PIECES.items():
        for code, meaning in piece.mistakes:
            if meaning is None:
                continue
            for constant in piece.constants:
                for xs in ([], [3], [5, 5, 1], [1, 2, 3, 4, 5, 6, 7]):
                    wanted = eval(code.format(k=constant), {"xs": xs, "max": max, "min": min, "sorted": sorted})
                    assert meaning(constant)(xs) == wanted, name


def _words(text):
    return re.findall(r"[a-z]+|\d+", text.lower())


def test_retypesetting_and_new_ends_leave_the_problem_as_it_is():
    rng = Random(0)
    for _ in range(200):
        problem = math_problems.draw_problem(rng, 4)
        retypeset_text = retypeset(rng, problem.prompt)
        assert retypeset_text != problem.prompt
        assert _words(retypeset_text) == _words(problem.prompt)
        for text in (
            retypeset_text,
            introduce(rng, problem.prompt),
            exchange_opening(rng, problem.prompt, OPENINGS),
            exchange_ending(rng, problem.prompt, QUESTIONS),
        ):
            assert text != problem.prompt
            assert math_problems.parse(text) == problem.chain


def test_a_slip_of_the_pen_changes_one_word_and_keeps_its_letters():
    rng = Random(1)
    for _ in range(200):
        before = math_problems.draw_problem(rng, 5).prompt
        after = mistype(rng, before)
        changed = [(a, b) for a, b in zip(before.split(), after.split(), strict=True) if a != b]
        assert len(changed) <= 1
        assert all(sorted(a) == sorted(b) and a[0] == b[0] for a, b in changed)
    assert mistype(rng, "no long word") == "no long word"
