import pytest

from ratchet.data_curation.code_tests.mutation import mutants

GOLDEN = "def solve(xs):\n    return max([x for x in xs if x > 3], default=0)\n"


def test_each_mutant_is_another_program_with_one_small_fault():
    found = mutants(GOLDEN, 50)
    assert len(found) == len(set(found)) >= 5 and GOLDEN.strip() not in found
    for fault in ("x >= 3", "min(", "x > 4", "x > 2", "default=1", "for x in xs]"):
        assert any(fault in mutant for mutant in found), fault


def test_the_same_program_gives_the_same_mutants_of_every_kind_first():
    assert mutants(GOLDEN, 4) == mutants(GOLDEN, 4)
    constants = "def f(a):\n    if a > 1 and a < 9:\n        a += 2\n    return a * 3 + 4 + 5 + 6 + 7 + 8\n"
    few = mutants(constants, 4)
    assert any("or" in mutant for mutant in few) and any("not" in mutant for mutant in few)


def test_faults_in_while_loops_come_last():
    looping = "def f(n):\n    k = 0\n    while n > 1:\n        n //= 2\n        k += 1\n    return k + 1\n"
    found = mutants(looping, 20)
    outside = [mutant.count("while n > 1:\n        n //= 2\n        k += 1") for mutant in found]
    assert outside == sorted(outside, reverse=True) and 0 < sum(outside) < len(outside)


def test_what_decides_nothing_is_left_alone():
    source = 'from math import pi\n\n\ndef f(x: int = 1) -> "2":\n    """Add 3."""\n    return x\n'
    assert all("Add 3." in m and "import pi" in m and "'2'" in m for m in mutants(source, 50))


@pytest.mark.parametrize("source", ["def solve(xs) return", "(" * 5000, "x = '\x00'", "-" * 100_000 + "1"])
def test_programs_that_cannot_be_parsed_have_no_mutants(source):
    assert mutants(source, 5) == []
