from random import Random

import pytest

from ratchet.examples.tiny_world import code_problems, math_problems
from ratchet.examples.tiny_world.teacher import ProceduralTeacher, count_tokens
from ratchet.infra.errors import RatchetError
from ratchet.infra.inference.protocol import Request, Sampling, derive_seed


def _ask(prompts, sampling=None, seed=0):
    requests = [
        Request(i, derive_seed("test", i), messages=({"role": "user", "content": prompt},))
        for i, prompt in enumerate(prompts)
    ]
    return list(ProceduralTeacher(seed).generate(requests, sampling or Sampling()))


def _right(completion, problem):
    return f"\\boxed{{{problem.answer}}}" in completion.text


def test_the_same_request_gets_the_same_answer_whatever_shares_its_batch():
    rng = Random(0)
    prompts = [math_problems.draw_problem(rng, 3).prompt for _ in range(40)]
    together = _ask(prompts)
    assert together == _ask(prompts)
    assert together != _ask(prompts, seed=1)
    assert together[:7] == _ask(prompts[:7])


def test_math_is_right_about_half_the_time_and_more_often_when_sharpened():
    rng = Random(1)
    problems = [math_problems.draw_problem(rng, 1 + i % 5) for i in range(1500)]
    shares = []
    for temperature in (1.0, 0.6):
        answers = _ask([problem.prompt for problem in problems], Sampling(temperature=temperature))
        shares.append(sum(map(_right, answers, problems)) / len(problems))
    assert 0.45 < shares[0] < 0.62
    assert 0.7 < shares[1] < 0.88


def test_harder_problems_get_longer_answers():
    rng = Random(2)
    means = []
    for level in math_problems.LEVELS:
        answers = _ask([math_problems.draw_problem(rng, level).prompt for _ in range(300)])
        means.append(sum(answer.tokens for answer in answers) / 300)
    assert means == sorted(means)
    assert means[-1] > 1.5 * means[0]


def test_most_programs_have_a_habitual_mistake_and_some_are_golden():
    rng = Random(3)
    problems = [code_problems.draw_problem(rng, 1 + i % 3) for i in range(600)]
    answers = _ask([problem.prompt for problem in problems])
    golden = sum(
        answer.text == f"```python\n{problem.golden_solution}```"
        for answer, problem in zip(answers, problems, strict=True)
    )
    assert 0.2 < golden / 600 < 0.4


def test_a_text_it_cannot_read_gets_no_right_answer():
    math, code = _ask(["How many primes are below 100?", "Write a program that prints the longest path in a tree."])
    assert "boxed" not in math.text
    assert math.finish_reason == "stop"
    assert code.text.startswith("```python\ndef solve(xs):\n    return ")


def test_an_answer_longer_than_the_limit_is_cut_and_says_so():
    rng = Random(4)
    prompts = [code_problems.draw_problem(rng, 3).prompt for _ in range(20)]
    for answer, whole in zip(_ask(prompts, Sampling(max_tokens=12)), _ask(prompts), strict=True):
        assert answer.finish_reason == "length"
        assert answer.tokens == count_tokens(answer.text) == 12
        assert whole.text.startswith(answer.text)


def test_token_ids_cannot_be_read():
    with pytest.raises(RatchetError, match="messages"):
        list(ProceduralTeacher().generate([Request(0, 0, prompt_ids=(1, 2))], Sampling()))
