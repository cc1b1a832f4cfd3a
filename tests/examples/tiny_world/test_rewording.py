import re
from random import Random

from ratchet.examples.tiny_world.math_problems import OPENINGS, QUESTIONS, draw_problem, parse
from ratchet.examples.tiny_world.rewording import exchange_ending, exchange_opening, introduce, mistype, retypeset


def _words(text):
    return re.findall(r"[a-z]+|\d+", text.lower())


def test_retypesetting_and_new_ends_leave_the_problem_as_it_is():
    rng = Random(0)
    for _ in range(200):
        problem = draw_problem(rng, 4)
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
            assert parse(text) == problem.chain


def test_a_slip_of_the_pen_changes_one_word_and_keeps_its_letters():
    rng = Random(1)
    for _ in range(200):
        before = draw_problem(rng, 5).prompt
        after = mistype(rng, before)
        changed = [(a, b) for a, b in zip(before.split(), after.split(), strict=True) if a != b]
        assert len(changed) <= 1
        assert all(sorted(a) == sorted(b) and a[0] == b[0] for a, b in changed)
    assert mistype(rng, "no long word") == "no long word"
