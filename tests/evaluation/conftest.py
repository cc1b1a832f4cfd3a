"""A model that can be evaluated in a second: random weights, and a vocabulary in which whole answers are words. A
server of chat completions that misbehaves on request."""

import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ratchet.data_curation.base.problem_table import to_table
from ratchet.evaluation.sampling import SampledGenerations, sample_share
from ratchet.evaluation.spec import load_plan, read_spec
from ratchet.verifiers.problem import problem_id
from tests.data_curation.conftest import shared_data  # noqa: F401  pytest finds fixtures by name
from tests.infra.stub_server import StubServer

CODE_ANSWER = "```python\ndef solve(xs):\n    return {}\n```"
WORDS = (
    ["<unk>", "<|im_start|>", "<|im_end|>", "user", "assistant", "add", "and", "what", "is"]
    + [str(digit) for digit in range(10)]
    + [f"\\boxed{{{digit}}}" for digit in range(3)]
    + [CODE_ANSWER.format(value) for value in ("0", "sum(xs)")]
)


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    path = tmp_path_factory.mktemp("model")
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", eos_token="<|im_end|>")
    tokenizer.chat_template = (
        "{% for m in messages %}user {{ m.content }} {% endfor %}{% if add_generation_prompt %}assistant{% endif %}"
    )
    tokenizer.save_pretrained(path)
    torch.set_num_threads(1)  # as in a sampling process
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(WORDS), hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128, eos_token_id=WORDS.index("<|im_end|>"), bos_token_id=None,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def benchmark_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("benchmarks")
    math = [
        {"problem_id": problem_id("math", text), "domain": "math", "prompt": text, "answer": str(i % 3)}
        for i, text in enumerate(f"what is {i} and {i + 1}" for i in range(7))
    ]
    tests = json.dumps([{"call": {"args": [xs], "kwargs": {}}, "output": sum(xs)} for xs in ([], [1], [2, 3])])
    code = [
        {"problem_id": problem_id("code", text), "domain": "code", "prompt": text, "tests": tests,
         "entry_point": "solve", "time_limit_s": 2.0}
        for text in (f"add {i}" for i in range(4))
    ]  # fmt: skip
    files = {"math": directory / "math.parquet", "code": directory / "code.parquet"}
    pq.write_table(to_table(math), files["math"])
    pq.write_table(to_table(code), files["code"])
    return files


@pytest.fixture
def spec(random_model: Path, benchmark_files: dict[str, Path], tmp_path: Path) -> dict:
    """A complete spec as `evaluation.main` reads it, to be changed by the test."""
    return {
        "model": {"identity": "random", "directory": str(random_model)},
        "label": "start",
        "prompt": {"math": "{prompt}", "code": "{prompt}"},
        "evaluation": {
            "benchmarks": [
                {"name": f"small-{domain}", "domain": domain, "samples": samples}
                for domain, samples in (("math", 6), ("code", 4))
            ],
            "temperature": 1.0, "top_p": 0.95, "max_tokens": 20, "pass_at": [1, 2, 4, 8],
        },
        "training": {"hardware": {"rollout_batch": 8}},
        "verification": {},
        "problems": {f"small-{domain}": str(benchmark_files[domain]) for domain in ("math", "code")},
        "set_aside": {},
        "contaminated": None,
        "store_dir": str(tmp_path / "store"),
        "work_dir": str(tmp_path / "work"),
    }  # fmt: skip


def write(spec: dict, path: Path) -> Path:
    """The spec in this file, or in `spec.json` of this directory."""
    file = path if path.suffix else path / "spec.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(spec))
    return file


def launch_directory(spec_path: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=spec_path.parent))


def sampled(spec_path: Path) -> pa.Table:
    """What a sampling process does, in this one; then all that is asked for, which must be there."""
    plan = load_plan(read_spec(spec_path))
    with SampledGenerations(spec_path, plan) as generations:
        sample_share(spec_path, launch_directory(spec_path), 0)
        return pa.concat_tables(generations.in_order())


def changed(spec: dict, **sections) -> dict:
    """The spec with other fields of some of its sections."""
    return {**spec, **{name: {**spec[name], **fields} for name, fields in sections.items()}}


def first_benchmark(spec: dict, **changes) -> dict:
    """The spec with this benchmark only."""
    return changed(spec, evaluation={"benchmarks": [{**spec["evaluation"]["benchmarks"][0], **changes}]})


class Server(StubServer):
    """Answers every question with a box. `down` calls and all after `most` answers fail with 503, questions in `broken`
    always with 500, those in `refused` with 400. `around`: what is around the user turns. `counts`: says
    how many tokens an answer has. `replies`: by question, the answers in its stead."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()
        self.around: Counter[str] = Counter()
        self.answered: Counter[tuple[str, int]] = Counter()
        self.down, self.most, self.broken, self.refused, self.counts = 0, 10**9, set(), set(), True
        self.said: Iterator[dict] = repeat({"content": "\\boxed{1}"})
        self.replies: dict[str, Iterator[dict]] = {}
        self._lock = threading.Lock()
        super().__init__()
        self.url += "/v1"

    def answer(self, request, body):
        if request.command != "POST":
            return 404, b"{}"
        given = json.loads(body)
        question, seed = given["messages"][-1]["content"], given["seed"]
        with self._lock:
            self.asked[question, seed] += 1
            first = given["messages"][0]
            system = {"system_prompt": first["content"]} if first["role"] == "system" else {}
            values = {name: value for name, value in given.items() if name == "chat_template_kwargs"}
            self.around[json.dumps(system | values)] += 1
            self.down -= 1
            spent = self.answered.total() >= self.most
            status = 503 if self.down >= 0 or spent else 500 if question in self.broken else 200
            status = 400 if question in self.refused else status
            self.answered[question, seed] += status == 200
        if status == 200:
            time.sleep(0.02)  # an answer takes longer than keeping it
        asked = next((name for name in self.replies if name in question), None)
        with self._lock:
            said = next(self.said if asked is None else self.replies[asked])
        message = {"role": "assistant", "content": said.get("content")} | said
        choice = {"index": 0, "message": message, "finish_reason": message.pop("finish_reason", "stop")}
        reply = {"id": "1", "object": "chat.completion", "choices": [choice]}
        reply |= {"usage": {"completion_tokens": 4}} if self.counts else {}
        refusal = {"error": {"message": "no, maximum context length"}}
        return status, json.dumps(reply if status == 200 else refusal).encode()


@pytest.fixture
def server():
    with Server() as server:
        yield server
