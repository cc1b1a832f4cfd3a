import ast
from random import Random

from ratchet.examples.tiny_world.code_problems import LEVELS, PIECES, Task, benchmark_problems, draw_problem, parse


def _execute(program: str, xs: list[int]):
    """Runs text written by this world itself, not by a model or a data set."""
    names: dict = {}
    exec(program, names)
    return names["solve"](xs)


def test_golden_solutions_pass_their_tests():
    rng = Random(0)
    for i in range(150):
        problem = draw_problem(rng, LEVELS[i % 3])
        assert len(problem.tests) >= 6
        assert problem.tests[0][0] == ()
        for xs, wanted in problem.tests:
            assert _execute(problem.golden_solution, list(xs)) == wanted


def test_tests_notice_a_dropped_operation_and_each_mistake_that_matters():
    rng = Random(1)
    for i in range(150):
        task, tests = (problem := draw_problem(rng, LEVELS[i % 3])).task, problem.tests
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


def test_every_text_reads_back():
    rng = Random(2)
    for i in range(500):
        problem = draw_problem(rng, LEVELS[i % 3])
        assert parse(f"{problem.prompt}\n\nWrite Python code, in one fenced block.") == problem.task
        ast.parse(problem.golden_solution)
    assert parse("Write a program that sorts.") is None


def test_benchmark_and_training_never_share_a_task():
    benchmark = benchmark_problems(64)
    assert len({problem.task for problem in benchmark}) == 64
    counts = [sum(problem.level == level for problem in benchmark) for level in LEVELS]
    assert max(counts) - min(counts) <= 1
    rng = Random(3)
    trained = {draw_problem(rng, LEVELS[i % 3]).task for i in range(600)}
    assert trained.isdisjoint(problem.task for problem in benchmark)


def test_value_of_a_task_worked_by_hand():
    task = Task((("above", 2), ("square", 0), ("maximum", 1)))
    assert task.run([1, 3, 2]) == 9
    assert task.run([]) == 1
    assert task.run([2], replaced=0, mistake=0) == 4
    assert task.run([], replaced=2, mistake=0) is None
