from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.data_curation.base.protocol import derive_seed
from ratchet.infra.recipe.model import NewModelConfig
from ratchet.infra.recipe.training import Hardware, Optimizer
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import VerifierPool

MICRO = NewModelConfig(
    hidden_size=32, layers=2, attention_heads=2, key_value_heads=1, intermediate_size=48, vocabulary=320,
    max_positions=96,
)  # fmt: skip


def sums(count: int) -> list[Problem]:
    """Small math problems with single-digit answers."""
    return [
        Problem(f"sum-{i:02d}", "math", f"What is {i % 5} plus {i % 4}?", answer=str(i % 5 + i % 4), difficulty=i % 8)
        for i in range(count)
    ]


@pytest.fixture(scope="session")
def micro_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory with a random model whose vocabulary knows the problems of `sums`."""
    from ratchet.training.new_model import create

    directory = tmp_path_factory.mktemp("micro") / "model"
    texts = [f"{problem.prompt}\nThe answer is \\boxed{{{problem.answer}}}." for problem in sums(40)]
    create(MICRO, texts, derive_seed("micro"), directory)
    return str(directory)


@pytest.fixture(scope="session")
def alone() -> None:
    """This process as a process group of one."""
    from ratchet.training import ranks

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ranks.join()


@pytest.fixture(scope="session")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(workers=1) as open_pool:
        yield open_pool


@pytest.fixture
def policy(alone: None, micro_model: str, monkeypatch):
    from ratchet.training.logprobs import TILES
    from ratchet.training.policy import Policy

    monkeypatch.setitem(TILES, "cpu", (7, 4096))
    return Policy(micro_model, Hardware(), Optimizer())


@pytest.fixture(scope="session")
def learnt_model(micro_model, alone, tmp_path_factory) -> Path:
    """The micro model after a short warm start, so that some answers are right and some are wrong."""
    from ratchet.data_curation.base.prompts import PromptFormat
    from ratchet.infra.recipe.training import Hardware, Optimizer, WarmStart
    from ratchet.training import warm_start
    from ratchet.training.checkpoint import Checkpoints
    from ratchet.training.policy import Policy
    from ratchet.training.step_logs import StepLog

    work = tmp_path_factory.mktemp("learned")
    policy = Policy(micro_model, Hardware(), Optimizer())
    traces = [{"prompt": p.prompt, "response": f"\\boxed{{{p.answer}}}"} for p in sums(40)] * 16
    samples = warm_start.encode(traces, policy.tokenizer, PromptFormat(math="{prompt}"))[0]
    settings = WarmStart(batch_size=16, learning_rate=1e-2)
    metrics = StepLog(work / "metrics.jsonl", 0, 0)
    warm_start.train(settings, 0, samples, policy, Checkpoints(work / "checkpoints", policy), metrics, 0)
    policy.save_model(work / "model")
    return work / "model"


@pytest.fixture(scope="session")
def straight(learnt_model, tmp_path_factory) -> Path:
    """A stage that was left alone."""
    from tests.training.processes import finish

    work = tmp_path_factory.mktemp("straight")
    finish(work, learnt_model)
    return work
