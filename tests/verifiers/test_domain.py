"""A domain of one's own: found by import path, judged in a confined process, with limits."""

import json
import os
import textwrap
from importlib.metadata import PackageNotFoundError

import pytest

from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.prompts import user_message
from ratchet.data_curation.read import read_problems
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.domains import use_domains
from ratchet.infra.recipe.load import validate_recipe
from ratchet.verifiers.domain import scored
from ratchet.verifiers.domains import DOMAINS, OWN_DOMAINS, domain_of, known_domains
from ratchet.verifiers.environments.domain import ENVIRONMENTS
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.outcome import Outcome
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.registry import IMPORT_PATH, add_to_import_path
from ratchet.verifiers.serving.local_pool import VerifierPool

SOURCE = textwrap.dedent(
    '''
    import os
    from ratchet.verifiers.domain import Domain

    class Echo(Domain):
        """The answer is repeated; every other answer is an instruction to misbehave."""

        name = "echo"
        templates = {"echo": "{prompt} Answer in <answer> tags."}

        def score(self, problem, answer):
            print("noise on standard output")
            match answer:
                case "loop":
                    while True:
                        pass
                case "memory":
                    bytearray(4 << 30)
                case "raise":
                    raise KeyError("no such thing")
                case "two":
                    return 2.0
                case "none":
                    return None
                case "exit":
                    os._exit(3)
                case "write":
                    open(os.path.join(os.path.dirname(__file__), "written"), "w")
                case "environment":
                    return float("RATCHET_JUDGE_TOKEN" not in os.environ)
                case "prompt":
                    return float("hello" in problem.prompt)
            return float(answer == problem.answer)
    '''
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lab")
    (directory / "echo_lab.py").write_text(SOURCE)
    saved = {name: os.environ.get(name) for name in (IMPORT_PATH, OWN_DOMAINS)}
    add_to_import_path(directory)
    use_domains(Recipe(name="lab", domains=("echo_lab",)))
    yield directory
    for name, value in saved.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    use_domains(Recipe(name="none"))


def judged(answers, prompts=("Say hello.",)):
    problems = [Problem("p1", "echo", prompt, answer="hello") for prompt in prompts]
    with VerifierPool(workers=1) as pool:
        return pool.verify([(each, f"So <answer>{answer}</answer>.") for each in problems for answer in answers])


def test_scores_become_verdicts(lab):
    right, wrong = judged(["hello", "bye"])
    assert (right.outcome, right.fraction, right.extracted) == (Outcome.PASSED, 1.0, "hello")
    assert (wrong.outcome, wrong.fraction) == (Outcome.FAILED, 0.0)
    assert user_message(Problem("p", "echo", "Say hello."), Recipe(name="r").model.prompt).endswith("<answer> tags.")


def test_a_verdict_is_shared_only_where_all_that_a_score_sees_is_equal(lab):
    assert [verdict.passed for verdict in judged(["prompt"], ["Say hello.", "Say bye."])] == [True, False]


def test_an_answer_that_misbehaves_harms_nobody(lab, monkeypatch):
    monkeypatch.setenv("RATCHET_JUDGE_TOKEN", "secret")
    monkeypatch.setattr("ratchet.verifiers.serving.isolated.TIME_LIMIT_S", 1.0)
    loop, memory, fault, too_much, nothing, gone, write, environment, after = judged(
        ["loop", "memory", "raise", "two", "none", "exit", "write", "environment", "hello"]
    )
    assert (loop.outcome, loop.decided_by) == (Outcome.TIMEOUT, "time_limit")
    assert (memory.outcome, memory.decided_by) == (Outcome.TIMEOUT, "memory_limit")
    assert fault.outcome is Outcome.INFRA_ERROR and "KeyError" in fault.detail, "a defect of the domain is reported"
    assert too_much.outcome is Outcome.INFRA_ERROR and "from 0 to 1, not 2.0" in too_much.detail
    assert nothing.outcome is Outcome.INFRA_ERROR and "from 0 to 1, not 'None'" in nothing.detail
    assert (gone.outcome, gone.decided_by) == (Outcome.FAILED, "crash")
    assert write.outcome is Outcome.INFRA_ERROR and not (lab / "written").exists()
    assert environment.passed and after.passed


def test_a_domains_own_templates_can_be_filled_in(lab, monkeypatch):
    stage = {"name": "a", "domain": "echo", "max_response_tokens": 8, "steps": 1}
    recipe = validate_recipe({"name": "r", "domains": ["echo_lab"], "training": {"stages": [stage]}}, "r.yaml")
    use_domains(recipe)
    monkeypatch.setattr(type(domain_of("echo")), "templates", {"echo": "{question} Answer in <answer> tags."})
    with pytest.raises(RatchetError, match=r"the domain echo: templates\.echo: \{question\} is not filled in, only"):
        use_domains(recipe)


def test_a_recipe_with_an_own_domain_is_checked_by_name(lab):
    stage = {"name": "a", "domain": "echo", "max_response_tokens": 8, "steps": 1}
    recipe = {"name": "r", "domains": ["echo_lab"], "training": {"stages": [stage]}}
    assert use_domains(validate_recipe(recipe, "r.yaml")) == ["echo"]
    assert known_domains() == [*DOMAINS.shipped, "echo"]
    for wrong, said in (
        ({"domains": ["nowhere.lab"]}, r"'nowhere\.lab' cannot be imported: ModuleNotFoundError"),
        ({"domains": ["echo_lab:Ecko"]}, r"echo_lab has no domain 'Ecko'; it has Echo"),
        ({"domains": ["textwrap"]}, r"textwrap holds 0 members of kind domain"),
        ({"curation": {"mth": {}}}, r"There is no domain 'mth'\. Did you mean 'math'\? Known: math, code, .*echo"),
        ({"model": {"prompt": {"mathh": "{prompt}"}}}, r"mathh: no template of echo has this name\. Known: echo"),
        (
            {"evaluation": {"benchmarks": [{"name": "aime24", "prompt": {"maths": "?"}}]}},
            r"aime24: prompt\.maths: .* Known: math",
        ),
    ):
        with pytest.raises(RatchetError, match=said):
            use_domains(validate_recipe(recipe | wrong, "r.yaml"))
    with pytest.raises(RatchetError, match=r"There is no domain 'unheard'.*under `domains:`"):
        domain_of("unheard")
    with pytest.raises(RatchetError, match=r"There is no domain 'echo_lab'\. Did you mean 'echo_lab:Echo'"):
        DOMAINS.get("echo_lab")


@pytest.mark.parametrize("name", [*MATH_COLUMNS["answer"], "numbers", "difficulty", "metadata", "tests", "domain"])
def test_every_unmapped_column_of_an_own_domain_stays_in_the_metadata(lab, tmp_path, name):
    values = [6, "6", [1, 2], {"low": 1, "high": 2}, "so 1 + 2\n#### 3", "word " * 60 + "\nend", 1.5, 0]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps({"question": "Reach it.", name: value}) + "\n" for value in values))
    for mapped, key in (({}, name), ({"metadata.truth": name}, "truth")):
        problems = from_table(read_problems(file, "echo", {"prompt": "question"} | mapped).kept)
        assert [json.loads(problem.metadata) for problem in problems] == [{key: value} for value in values]


def test_the_answer_of_an_own_domain_is_the_mapped_column_or_one_of_a_usual_name(lab, tmp_path):
    rows = [
        {"question": "How many?", "target": 3, "answer": "no"},
        {"question": "How many are left?", "target": "She has 5 - 2.\n#### 3", "answer": "no"},
        {"question": "Translate it.", "target": "a long text " * 30 + "\nits end", "answer": "no"},
        {"question": "Between what?", "target": {"low": 1}, "answer": "no"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mapped = from_table(read_problems(file, "echo", {"prompt": "question", "answer": "target"}).kept)
    assert [p.answer for p in mapped] == ["3", "3", rows[2]["target"], '{"low": 1}']
    stays = [json.loads(p.metadata) for p in mapped]
    assert all(facts.pop("answer") == "no" for facts in stays), "a usual name is not read where the answer is mapped"
    assert stays == [{"target": 3}, {"target": rows[1]["target"]}, {}, {"target": {"low": 1}}]
    unmapped = from_table(read_problems(file, "echo", {"prompt": "question"}).kept)
    assert [p.answer for p in unmapped] == ["no"] * 4


POEMS = {"by": "verifiers", "environment": "a_lab:poems", "arguments": {"forms": ["haiku"]}}


def test_an_environment_is_a_domain_of_the_generators_name(tmp_path, monkeypatch):
    monkeypatch.setenv(ENVIRONMENTS, "")
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.3.1")
    use_domains(validate_recipe({"name": "r", "generate": {"poems": POEMS}, "curation": {"poems": {}}}, "r.yaml"))
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "A {haiku}?"}]
    row = {
        "environment": "a_lab:poems",
        "arguments": {"forms": ["haiku"]},
        "messages": turns,
        "row": {"answer": [5, 7]},
    }
    answered = [*turns, {"role": "assistant", "content": "2"}]
    picture = [{"role": "user", "content": [{"type": "image"}]}]
    rows = [row, row | {"arguments": {}}, row | {"row": "x"}]
    rows += [row | {"messages": messages} for messages in (turns * 2, answered, picture)]
    file = tmp_path / "train.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = read_problems(file, "poems")
    assert [json.loads(e)["field"] for e in read.rejected["evidence"].to_pylist()] == ["row", *["messages"] * 3]
    poem, other = from_table(read.kept)
    assert user_message(poem, Recipe(name="r").model.prompt) == "Be brief.\n\nA {haiku}?" and poem.answer == "[5, 7]"
    poems = domain_of("poems")
    assert not poems.fault(poem) and "its row is of a_lab:poems with {}" in poems.fault(other)
    assert (poems.extract("<think>so</think>x"), poems.extract("<think>so")) == ("<think>so</think>x", None)
    use_domains(Recipe(name="none"))
    with pytest.raises(RatchetError, match="There is no domain 'poems'"):
        domain_of("poems")


@pytest.mark.parametrize(
    "generate, version, said",
    [
        ({"math": POEMS}, "0.3.1", r"generate\.math: an environment is a domain of that name, which is taken"),
        ({"mine": {"by": "verifiers"}}, "0.3.1", r"generate\.mine: name an environment"),
        ({"poems": POEMS}, "", r"need the verifiers library, 0\.3: pip install './verifiers\[environments\]'"),
        ({"poems": POEMS}, "0.4.0", r"0\.3; 0\.4\.0 is installed: pip install"),
    ],
)
def test_an_environment_that_cannot_be(generate, version, said, monkeypatch):
    def installed(name):
        if not version:
            raise PackageNotFoundError(name)
        return version

    monkeypatch.setenv(ENVIRONMENTS, "")
    monkeypatch.setattr("importlib.metadata.version", installed)
    with pytest.raises(RatchetError, match=said):
        use_domains(
            validate_recipe({"name": "r", "generate": generate, "curation": {name: {} for name in generate}}, "r")
        )
    use_domains(Recipe(name="none"))


def test_a_weighted_sum_that_rounds_below_one_passes():
    assert 0.6 + 0.3 + 0.1 < 1
    verdict = scored(0.6 + 0.3 + 0.1, "right")
    assert verdict.passed and verdict.fraction == 1
    assert not scored(1 - 1e-6, "nearly").passed
