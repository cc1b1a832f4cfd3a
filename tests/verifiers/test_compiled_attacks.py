"""Attacks by programs in C++, when they are built and when they run: nothing is reached, found, forged or left."""

import platform
import shutil
import subprocess
from dataclasses import replace

import pytest

from ratchet.verifiers.code import compiled
from ratchet.verifiers.code.judge import examine, judge
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.submission import EVERY_TEST
from tests.verifiers.compiled_attacks import FORGE, HARMLESS, HEADERS, REACH, STEAL, X86, reaching, stealing
from tests.verifiers.compiler_attacks import COMPILE
from tests.verifiers.sandbox_world import PROGRAM, World, descendants, needs_compiler, problem

pytestmark = needs_compiler
CPP = '{"answer_languages": ["cpp"]}'
DOUBLE = "print(2 * int(input()))"
PLAIN = '#include <cstdio>\nint main() { int x; if (scanf("%d", &x) == 1) printf("%d\\n", 2 * x); }'


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("world"))
    world.facts |= {"abstract_name": world.token, "length": len(world.token), "arch_prctl": 158}
    yield world
    world.close()


def well(level, world):
    """Nothing was touched, nothing is left but the fork server, and the judge still judges. The next attack, which has
    to compile, says that C++ is still judged too."""
    assert world.untouched()
    assert len(descendants(level.beside._process.pid)) == 1
    assert judge(problem(PROGRAM), DOUBLE, level).passed


def fails(tests, source, level, world, limit_s=0.3):
    verdict = judge(problem(tests, metadata=CPP, time_limit_s=limit_s), source, level)
    assert verdict.outcome in (Outcome.FAILED, Outcome.TIMEOUT), verdict
    assert world.token not in verdict.detail
    return verdict


def test_nothing_outside_can_be_reached(level, world):
    tests = [{"input": f"{number}\n", "output": f"reached {number}"} for number in range(len(REACH))]
    asked = problem(tests, metadata=CPP, time_limit_s=2.0)
    verdict, results = examine(asked, reaching(world.facts), level, EVERY_TEST)
    assert verdict.decided_by != "compile_error", verdict
    reached = [name for name, result in zip(REACH, results, strict=True) if result.status == "passed"]
    assert not reached
    well(level, world)


def test_the_attacks_are_real(tmp_path, world):
    """Those that do no harm succeed where nothing is in their way."""
    source, program = tmp_path / "attack.cpp", tmp_path / "attack"
    other = World(tmp_path)
    source.write_text(reaching(other.facts | {name: world.facts[name] for name in ("length", "arch_prctl")} | {
        "abstract_name": other.token
    }))  # fmt: skip
    compiler = next(filter(None, map(shutil.which, compiled.COMPILERS)))
    subprocess.run([compiler, "-O2", "-std=c++17", source, "-o", program], check=True)
    for name in HARMLESS:
        number = [*REACH].index(name)
        done = subprocess.run([program], input=f"{number}\n".encode(), stdout=subprocess.PIPE, check=False)
        assert f"reached {number}" in done.stdout.decode(), name
    other.close()


@pytest.mark.parametrize("name", STEAL)
def test_expected_outputs_cannot_be_found(name, level, world):
    verdict = fails([{"input": "0\n", "output": world.token}], stealing(STEAL[name], world.facts), level, world, 2.0)
    assert verdict.decided_by in ("wrong_answer", "runtime_error"), verdict
    well(level, world)


@pytest.mark.parametrize("name", [*FORGE, *(X86 if platform.machine() == "x86_64" else ())])
def test_no_verdict_is_forged_and_nothing_stays(name, level, world):
    verdict = fails(PROGRAM, f"{HEADERS}\n{(FORGE | X86)[name]}", level, world)
    assert verdict.decided_by != "compile_error", verdict
    well(level, world)


@pytest.mark.parametrize("name", COMPILE)
def test_a_compiler_is_a_program_of_strangers_too(name, level, world, monkeypatch):
    monkeypatch.setattr(compiled, "STAGE_LIMITS", replace(compiled.STAGE_LIMITS, test_s=0.5, total_s=0.5))
    fails([{"input": "0\n", "output": world.token}], COMPILE[name].format(**world.facts), level, world)
    well(level, world)


def test_after_all_of_that_programs_are_judged_as_ever(level, world):
    assert judge(problem(PROGRAM, metadata=CPP, time_limit_s=20.0), PLAIN, level).passed
    well(level, world)
