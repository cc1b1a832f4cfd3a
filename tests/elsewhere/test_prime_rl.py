"""The library `verifiers`, which prime-rl trains with, over what we export: RATCHET_PRIME_RL_PYTHON has it and
ratchet-environments."""

import json
import re
import shlex
import tomllib
from collections import Counter

import pytest

from ratchet.data_curation.base.prompts import PromptFormat, message_ids
from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.data_curation.exports import EXPORTS
from ratchet.infra.inference.transformers_engine import TransformersEngine
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool
from tests.elsewhere.pairs import pairs
from tests.infra.tiny_endpoint import Running, RunningHandler, grow_model
from tests.verifiers.conftest import TOKEN, serve  # noqa: F401

SAMPLED = 12
HALF = Problem.of("math", "Half of one?", answer="1/2")


class Endpoint(Running):
    """Answers a prompt by its first line, with text, thinking and finish reason; samples a tiny model for any other."""

    def __init__(self, model, answers: dict[str, tuple[str, str, str]]) -> None:
        self.engine, self.answers, self.sampled = TransformersEngine.load(str(model)), answers, 0
        super().__init__()

    def answer(self, handler: RunningHandler, body: bytes) -> None:
        prompt = json.loads(body)["messages"][-1]["content"]
        name, _, _ = prompt.partition("\n")
        if name in self.answers:
            text, thinking, reason = self.answers[name]
        else:
            (ids,) = message_ids(self.engine.tokenizer, [prompt], PromptFormat())
            with self._lock:
                (completion,) = self.engine.generate([Request(0, self.sampled, prompt_ids=ids)], Sampling(1, 1, 0, 24))
                self.sampled += 1
            text, thinking, reason = completion.text, "", completion.finish_reason
        message = {"role": "assistant", "content": text} | ({"reasoning_content": thinking} if thinking else {})
        choice = {"index": 0, "message": message, "finish_reason": reason}
        handler.reply(
            200, {"id": "1", "created": 0, "model": "rules", "object": "chat.completion", "choices": [choice]}
        )


def command(file, endpoint) -> list[str]:
    """The arguments of `eval` in an export's README, with our endpoint for its own."""
    usage = EXPORTS["prime-rl"].usage.format(train=file, validation=file)
    [text] = re.findall(r"^uv run eval (.*?)^```", usage, re.MULTILINE | re.DOTALL)
    assert "http://localhost:8000/v1" in text
    return shlex.split(text.replace("\\\n", "").replace("http://localhost:8000/v1", endpoint.url))


def test_the_configuration_of_an_exports_readme_is_toml():
    [text] = re.findall(r"```toml\n(.*?)```", EXPORTS["prime-rl"].usage.format(train="t", validation="v"), re.DOTALL)
    [source] = tomllib.loads(text)["orchestrator"]["train"]["source"]
    assert source["env"]["taskset"] == {"id": "ratchet-environments", "data": "t"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return grow_model(tmp_path_factory.mktemp("tiny"))


@pytest.mark.slow
def test_scores_of_the_librarys_command_are_our_verdicts(peer, exported, tmp_path, model):
    pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
    made = pairs(tmp_path)[::10]
    problems = [Problem(**{**vars(problem), "prompt": f"Pair {n}"}) for n, (problem, _) in enumerate(made)]
    problems += [Problem.of("math", f"What is {n} plus {n + 1}?", answer=str(2 * n + 1)) for n in range(SAMPLED)]
    file = exported("prime-rl", problems)
    endpoint = Endpoint(model, {f"Pair {n}": (response, "", "stop") for n, (_, response) in enumerate(made)})
    printed = peer("prime_rl", "prime_rl_eval.py", tmp_path, file, *command(file, endpoint))
    endpoint.close()
    assert endpoint.sampled == SAMPLED and printed["domains"] == Counter(problem.domain for problem in problems)
    assert len(printed["domains"]) == 5
    traces = [printed["traces"][str(number)] for number in range(len(problems))]
    assert len(traces) > 200 and all(trace["ok"] for trace in traces)
    assert [trace["response"] for trace in traces[: len(made)]] == [response for _, response in made]
    with VerifierPool() as pool:
        verdicts = pool.verify(zip(problems, [trace["response"] for trace in traces], strict=True))
    for problem, verdict, trace in zip(problems, verdicts, traces, strict=True):
        if trace["metrics"]["truncated"]:
            assert trace["reward"] == trace["metrics"]["answered"] == 0.0
            continue
        graded = domain_of(problem.domain).reward == "graded"
        assert trace["reward"] == (verdict.fraction if graded else float(verdict.passed)), (problem, trace)
        assert trace["outcome"] == verdict.outcome.value
    rewards = [trace["reward"] for trace in traces]
    assert 0.3 < sum(rewards) / len(rewards) < 0.7 and any(0 < reward < 1 for reward in rewards)


@pytest.mark.slow
def test_a_reward_server_judges_what_is_whole_with_its_thinking(peer, exported, tmp_path, model, serve):  # noqa: F811
    kinds = {
        "whole": ("\\boxed{0.5}", "so it is", "stop"),
        "text": ("so it is</think>\\boxed{0.5}", "", "stop"),
        "open": ("\\boxed{0.5}", "", "stop"),
        "cut": ("so it is</think>\\boxed{0.5}", "", "length"),
    }
    problems = [Problem(**{**vars(HALF), "prompt": name}) for name in kinds]
    file = exported("prime-rl", problems, prompt=PromptFormat(response_prefix="<think>\n"))
    endpoint = Endpoint(model, kinds)
    servers = {"RATCHET_REWARD_SERVERS": serve().url, "RATCHET_JUDGE_TOKEN": TOKEN}
    printed = peer("prime_rl", "prime_rl_eval.py", tmp_path, file, *command(file, endpoint), **servers)
    endpoint.close()
    traces = {name: printed["traces"][str(number)] for number, name in enumerate(kinds)}
    assert {name: trace["reward"] for name, trace in traces.items()} == {"whole": 1, "text": 1, "open": 0, "cut": 0}
    assert {name: trace["metrics"]["truncated"] for name, trace in traces.items()} == {
        "whole": 0, "text": 0, "open": 0, "cut": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_a_fault_of_the_judge_is_an_error_and_no_reward(peer, exported, tmp_path, model):
    file = exported("prime-rl", [HALF])
    endpoint = Endpoint(model, {HALF.prompt: ("\\boxed{1/2}", "", "stop")})
    options = *command(file, endpoint), "--env.taskset.task.servers", "http://127.0.0.1:9"
    printed = peer("prime_rl", "prime_rl_eval.py", tmp_path, file, *options, RATCHET_JUDGE_TOKEN=TOKEN)
    endpoint.close()
    [trace] = printed["traces"].values()
    assert not trace["ok"] and trace["reward"] is None
    [[kind, message]] = trace["errors"]
    assert kind == "TaskError" and "No reward server answers (http://127.0.0.1:9" in message and "\n" not in message


@pytest.mark.slow
def test_files_that_cannot_be_used_are_told_in_one_line(peer, exported, tmp_path):
    file, bad, other = exported("prime-rl", [HALF]), tmp_path / "bad.jsonl", tmp_path / "other.jsonl"
    bad.write_text(json.dumps({"prompt": "Q", "ratchet_problem": '{"answer": "1"}'}))
    other.write_text(json.dumps({"prompt": "Q", "answer": "1"}))
    asked = "math:", f"math:{other}", f"math:{bad}", f"code:{file}", f"math:{tmp_path}/none.parquet"
    said = peer("prime_rl", "prime_rl_eval.py", "refused", *asked)
    assert all(text and "\n" not in text for text in said)
    for text, part in zip(said, (
        "name a file of `ratchet export problems --format prime-rl`", "has no column ratchet_problem: write it with",
        f'Row 0 of {bad} cannot be judged: its ratchet_problem names no domain; the least is {{"domain": "math"',
        "has no row of the domain code", "none.parquet",
    ), strict=True):  # fmt: skip
        assert part in text, text
