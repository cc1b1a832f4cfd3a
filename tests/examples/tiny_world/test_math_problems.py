from random import Random

from ratchet.examples.tiny_world.math_problems import LEVELS, Chain, Step, benchmark_problems, draw_problem, parse


def test_every_value_is_a_digit_and_every_text_reads_back():
    rng = Random(0)
    for i in range(1000):
        problem = draw_problem(rng, LEVELS[i % 5])
        assert problem.level == LEVELS[i % 5]
        assert all(0 <= value <= 9 for value in problem.chain.values())
        assert parse(f"Solve this. {problem.prompt}\n\nReason step by step: 2 of 3.") == problem.chain


def test_answer_of_a_chain_worked_by_hand():
    chain = Chain(5, (Step("+", 4), Step("-", 5), Step("*", 2)))
    assert chain.values() == [5, 9, 4, 8]
    assert chain.answer == "8"


def test_markup_and_white_space_do_not_change_the_problem():
    chain = Chain(5, (Step("+", 4), Step("*", 2)))
    assert parse("Start at 5. Step 1: add 4. Step 2: double. Total?") == chain
    assert parse("START AT  $5$.\nstep 1: add \\(4\\).\nstep 2: \\text{double}. Total?") == chain
    assert parse("Is 5 prime?") is None


def test_benchmark_and_training_never_share_a_chain():
    benchmark = benchmark_problems(64)
    assert len({problem.chain for problem in benchmark}) == 64
    counts = [sum(problem.level == level for problem in benchmark) for level in LEVELS]
    assert max(counts) - min(counts) <= 1
    rng = Random(1)
    trained = {draw_problem(rng, LEVELS[i % 5]).chain for i in range(5000)}
    assert trained.isdisjoint(problem.chain for problem in benchmark)
    assert benchmark == benchmark_problems(64)


def test_a_benchmark_larger_than_the_one_step_chains_has_no_text_twice():
    prompts = [problem.prompt for problem in benchmark_problems(200)]
    assert len(set(prompts)) == 200
