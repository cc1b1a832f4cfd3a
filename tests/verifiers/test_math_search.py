"""The searches that run whole every night, small: no constant answers different questions, no change passes without a
reason."""

import random

from benchmarks.math_constants import climb, phrases, spread, strings, unequal, universal, words
from benchmarks.math_mutations import KINDS, mutations, search
from benchmarks.math_references import shipped_references


def test_no_constant_is_right_for_different_references():
    draw, references = random.Random(1), shipped_references()
    constants = [*phrases(), *draw.sample([*words()], 150), *strings(60)]
    sample = spread(references, 120)
    assert len({*sample}) == 120
    assert universal(constants, sample, []) == {}
    assert climb(draw.sample(constants, 3), sample[:40], steps=5) == ("", [])


def test_a_constant_for_different_references_would_be_found():
    assert unequal("any", ["x>3", "x<2"]) == ["x>3", "x<2"]
    assert unequal("5", ["5", "x=5", "5\\text{ cm}", "500\\%"]) == []


def test_small_changes_pass_only_with_a_reason():
    references = random.Random(1).sample(shipped_references(), 250)
    tried, passed = search(references)
    assert len(KINDS) >= 25 and len(tried) >= 25 and tried.total() > 1500
    assert {pair: kind for (kind, why), pairs in passed.items() for pair in pairs if not why} == {}


def test_changes_change_one_thing():
    assert ("order of a tuple", "(2, 1)") in mutations("(1,2)")
    assert ("sign in front", "-3x") in mutations("3x")
    assert ("case", "Mv") not in mutations("3") and ("another name", "g=5") in mutations("x=5")
