from random import Random

import pytest

from ratchet.data_curation.base.protocol import Request, Sampling, derive_seed
from ratchet.data_curation.settings.teacher import Teacher
from ratchet.examples.tiny_world import code_problems, math_problems
from ratchet.examples.tiny_world.teacher import HABITS, ProceduralTeacher, count_tokens
from ratchet.verifiers.errors import RatchetError


def _ask(prompts, sampling=None, seed=0, model="careful"):
    requests = [
        Request(i, derive_seed("test", i), messages=({"role": "user", "content": prompt},))
        for i, prompt in enumerate(prompts)
    ]
    return list(ProceduralTeacher(seed, HABITS[model]).generate(requests, sampling or Sampling()))


def _right(completion, problem):
    return f"\\boxed{{{problem.answer}}}" in completion.text


def test_the_same_request_gets_the_same_answer_whatever_shares_its_batch():
    rng = Random(0)
    prompts = [math_problems.draw_problem(rng, 3).prompt for _ in range(40)]
    together = _ask(prompts)
    assert together == _ask(prompts)
    assert together != _ask(prompts, seed=1)
    assert together[:7] == _ask(prompts[:7])


def _shares_right(model, levels, draw, is_right, temperature=1.0):
    """By level: the share of 400 problems that the model solves."""
    rng = Random(1)
    shares = []
    for level in levels:
        problems = [draw(rng, level) for _ in range(400)]
        answers = _ask([problem.prompt for problem in problems], Sampling(temperature=temperature), model=model)
        shares.append(sum(map(is_right, answers, problems)) / 400)
    return shares


def _math(model, temperature=1.0):
    return _shares_right(model, math_problems.LEVELS, math_problems.draw_problem, _right, temperature)


def _code(model):
    def is_golden(answer, problem):
        return answer.text == f"```python\n{problem.golden_solution}```"

    return _shares_right(model, code_problems.LEVELS, code_problems.draw_problem, is_golden)


def test_the_careful_model_solves_most_problems_and_fewer_of_the_long_ones():
    math, code = _math("careful"), _code("careful")
    assert math == sorted(math, reverse=True) and math[0] > 0.8 and math[-1] > 0.5
    assert code[0] > code[-1] > 0.5


def test_the_hasty_model_solves_short_problems_often_and_long_ones_rarely_but_sometimes():
    math, code = _math("hasty"), _code("hasty")
    assert math[0] > 0.75 and 0.02 < math[-1] < 0.2 and math[:4] == sorted(math[:4], reverse=True)
    assert 0.25 < code[0] < 0.5 and 0.02 < code[-1] < 0.2


def test_a_low_temperature_sharpens_every_habit():
    warm, cool = _math("careful"), _math("careful", temperature=0.5)
    assert all(c > w for c, w in zip(cool, warm, strict=True))
    assert _math("careful", temperature=0.0) == [1.0] * 5


def test_harder_problems_get_longer_answers():
    rng = Random(2)
    means = []
    for level in math_problems.LEVELS:
        answers = _ask([math_problems.draw_problem(rng, level).prompt for _ in range(300)])
        means.append(sum(answer.tokens for answer in answers) / 300)
    assert means == sorted(means)
    assert means[-1] > 1.5 * means[0]


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


def test_a_model_it_does_not_have_is_an_error_that_names_those_it_has():
    with pytest.raises(RatchetError, match="'wise': set it to careful or hasty"):
        ProceduralTeacher.check(Teacher(model="wise"))  # while the run is planned
