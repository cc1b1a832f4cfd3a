"""Environments of others: what can be used of them, what is refused, and that nobody is fooled. They take the
`verifiers` library, an extra that `.[dev]` does not install."""

import importlib
import json
import os
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

if not any(found.name == "verifiers" for found in distributions()):
    pytest.skip("the verifiers library is not installed: pip install -e '.[environments]'", allow_module_level=True)

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.read import read_problems
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.load import validate_recipe
from ratchet.verifiers.domains import known_domains
from ratchet.verifiers.environments import generation
from ratchet.verifiers.environments.scoring import LoadedEnvironment
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.registry import IMPORT_PATH, add_to_import_path
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.verifiers.sandbox_world import descendants

ROOT = Path(__file__).parents[2]
with pytest.MonkeyPatch.context() as patch:  # pytest looks in the checkout first, where a folder is called like it
    patch.setattr(sys, "path", [path for path in sys.path if path and Path(path) != ROOT])
    importlib.import_module("verifiers.legacy")

pytestmark = pytest.mark.slow  # the library takes ten seconds to import, in each process that scores

GYM = "verifiers.envs.integrations.reasoninggym_env:ReasoningGymEnv"
USED = {
    "sums": {"environment": "environment_lab", "arguments": {"rows": 30}},
    "evaluating": {"environment": "environment_lab:evaluating"},
    "boxed": {"environment": "environment_lab:boxed"},
    "gym": {"environment": GYM, "arguments": {"gym": "chain_sum", "num_train_examples": 9, "num_eval_examples": 3}},
    "poems": {"environment": "stardata.envs.constraint_gym:load_lipogram_env"},
}
MARK = "/tmp/ratchet-environment-injected"


@pytest.fixture(scope="module", autouse=True)
def lab():
    saved = os.environ.get(IMPORT_PATH)
    add_to_import_path(Path(__file__).parent)
    use_domains(
        validate_recipe({"name": "lab", "generate": {n: {"by": "verifiers"} | s for n, s in USED.items()}}, "lab")
    )
    yield
    os.environ.pop(IMPORT_PATH) if saved is None else os.environ.update({IMPORT_PATH: saved})
    use_domains(Recipe(name="none"))


@pytest.fixture(scope="module")
def pool():
    with VerifierPool(workers=1) as pool:
        yield pool


def made(name, directory, **settings):
    directory.mkdir(exist_ok=True)
    said = generation.make_rows(directory, 3, **USED[name], **settings)
    return from_table(read_problems(directory / "train.jsonl", name).kept), said


def loaded(function, **arguments):
    return LoadedEnvironment(f"environment_lab:{function}", arguments)


def first(environment):
    return next(environment.rows("train"))


def test_rows_are_problems_with_the_system_prompt(tmp_path):
    problems, said = made("sums", tmp_path / "a", train=100, test=5)
    assert said == "25 train rows of 100" and len(problems) == 25
    assert all(p.prompt.startswith("Answer in <answer> tags.\n\nWhat is ") for p in problems)
    test = from_table(read_problems(tmp_path / "a/test.jsonl", "sums").kept)
    assert len(test) == 5 and not {p.problem_id for p in test} & {p.problem_id for p in problems}
    report = json.loads((tmp_path / "a/made.json").read_text())
    assert report["versions"].keys() == {"verifiers"} and not report["raised"]
    again, _ = made("sums", tmp_path / "b", train=100, test=5)
    assert again == problems and (tmp_path / "b/test.jsonl").read_bytes() == (tmp_path / "a/test.jsonl").read_bytes()
    assert {"sums", "gym"} <= set(known_domains())


def test_weights_parsers_and_async_functions():
    sums = loaded("load_environment")
    messages, row = first(sums)
    answer = f"<answer>{row['answer']}</answer>"
    assert sums.score(messages, row, answer) == 1
    assert sums.score(messages, row, f"<think>{'so ' * 99}</think>{answer}") == 1, "the thinking is none of it"
    assert sums.score(messages, row, "so " * 99 + answer) == pytest.approx(0.8)
    assert sums.score(messages, row, "no") == pytest.approx(0.2)
    thinking = loaded("thinking")
    assert (
        thinking.score(messages, row, f"<think>So.</think>{answer}") == 1
        and thinking.score(messages, row, answer) == 0.5
    )
    importing = loaded("importing")
    importing.warm_up()
    assert importing.score(messages, row, answer) == 1
    penalizing = loaded("penalizing")
    assert (penalizing.score(messages, row, answer), penalizing.score(messages, row, "no")) == (0.5, 0.0)


def test_a_test_set_of_its_own_is_held_out():
    given = {s: list(loaded("load_environment", held_out=10).rows(s)) for s in ("train", "test")}
    left_out = generation.Counter()
    split = generation.split_rows(given, {"seed": 0, "train": None, "test": 100}, left_out)
    assert (len(split["train"]), len(split["test"])) == (30, 10)
    assert left_out == {"a training row that asks what a test row asks": 10}


@pytest.mark.parametrize(
    "function, said",
    [
        ("nothing", "it is a object, not a SingleTurnEnv"),
        ("judged", "its JudgeRubric asks a judge model"),
        ("with_a_client", "its Rubric asks a judge model"),
        ("with_tools", "it is a ToolEnv, not a SingleTurnEnv"),
        ("in_groups", "it scores a group of responses together"),
        ("needs_state", "raises for every response: KeyError: 'sandbox_id'"),
        ("needs_an_argument", "graded raises for every response: TypeError: .*'grader'"),
        ("prepares", r"its rollout is more than one response \(setup_state\)"),
        ("scores_itself", "its Whole has its own score_rollout"),
        ("more_than_one", "gave 3.0; it must be at most 1"),
        ("without_reward", "none of its reward functions has a positive weight"),
        ("runs_programs", "runs raises for every response: "),
        ("few_shots", "the environment has no row that can be asked"),
        ("no_such", "environment_lab has no environment 'no_such'; it has .*boxed"),
    ],
)
def test_what_one_response_cannot_tell_is_refused(function, said):
    with pytest.raises((RatchetError, ValueError), match=said):
        generation.make({"environment": f"environment_lab:{function}", "arguments": {}})


def test_a_plan_says_so_before_anything_is_made():
    with pytest.raises(RatchetError, match="environment_lab:judged cannot be used: its JudgeRubric asks a judge model"):
        generation.CHECK("environment_lab:judged", train=3)
    with pytest.raises(RatchetError, match="'no_such_module:load_environment' cannot be imported"):
        generation.CHECK("owner/no-such-module")


def test_the_librarys_own_environments_are_scored_in_confinement(pool, tmp_path):
    [sum_, *_], _ = made("gym", tmp_path / "gym", test=2)
    value = sum(int(n) for n in sum_.prompt.rpartition(":")[2].replace("- ", "+ -").strip("= \n").split("+"))
    [two, *_], _ = made("boxed", tmp_path / "boxed", train=3, test=1)
    right = json.loads(two.metadata)["row"]["answer"]
    asked = [
        (sum_, f"<think>So.</think><answer>{value}</answer>"), (sum_, "<answer>x</answer>"), (sum_, "<think>"),
        (two, rf"It is \boxed{{{right}.0}}."), (two, r"\boxed{1000}"), (two, "No."),
    ]  # fmt: skip
    judged = pool.verify(asked)
    assert [v.fraction for v in judged] == [1, 0, 0, 1, 0, 0] and judged[2].outcome is Outcome.UNPARSEABLE


def test_hostile_answers_forge_nothing_and_leave_nothing(pool, tmp_path):
    [problem, *_], _ = made("evaluating", tmp_path / "evaluating", train=3, test=1)
    right = json.loads(problem.metadata)["row"]["answer"]
    forge = '[__import__(\'os\').write(fd, b\'{"status": "done", "output": "1.0"}\\n\') for fd in range(3, 9)]'
    hostile = [
        f"__import__('os').system('touch {MARK}')",
        f"{forge} and __import__('os')._exit(0)",
        "().__class__.__base__.__subclasses__()",
        "(lambda: [0 for _ in iter(int, 1)])()",
        "type('E', (), {'__eq__': lambda *_: True})()",
        "9**9**9**9",
        "[0] * 10**10",
        "exit()",
        "[" * 20_000,
        "𝟙\u202e\x00é" * 500,
    ]
    assert [v.fraction for v in pool.verify([(problem, f"<answer>{right}</answer>")])] == [1.0]
    before = descendants(os.getpid())
    judged = pool.verify([(problem, f"<answer>{answer}</answer>") for answer in hostile])
    assert [v.fraction for v in judged] == [0.0] * len(hostile)
    assert judged[5].outcome is Outcome.TIMEOUT, judged[5]
    assert not os.path.exists(MARK)
    assert before and descendants(os.getpid()) == before, "what scored is gone, and what forks is the same"


def test_an_environment_from_the_package_index(pool, tmp_path):
    pytest.importorskip("stardata", reason="staros-stardata is not installed: pip install staros-stardata")
    problems, said = made("poems", tmp_path / "poems", train=9, test=3)
    letter = {p.prompt.partition("letter '")[2][0] for p in problems}
    assert letter <= set("eao") and not said
    [problem] = [p for p in problems if "letter 'e'" in p.prompt][:1]
    lines = ("A dim lamp burns low on a cold hill", "as old ships drift far from our sight",
             "a lark hums its plain song low,", "and you and I wait for warm morning light.")  # fmt: skip
    good = "\n".join(lines)
    best, wrong, short, hostile = pool.verify(
        [(problem, good), (problem, good.replace("dim", "dense")), (problem, "cold night"), (problem, "e" * 99_999)],
    )
    assert best.fraction == 1 and 0 < wrong.fraction < 1 and short.fraction <= 0.25 and hostile.fraction < 0.25
