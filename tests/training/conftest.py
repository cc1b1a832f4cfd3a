from __future__ import annotations

import os
import socket

import pytest

from ratchet.data_curation.base.protocol import derive_seed
from ratchet.infra.recipe.model import GrownModel
from ratchet.infra.recipe.training import Hardware, Optimizer
from ratchet.verifiers.problem import Problem

MICRO = GrownModel(
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
    from ratchet.training.growth import grow

    directory = tmp_path_factory.mktemp("micro") / "model"
    texts = [f"{problem.prompt}\nThe answer is \\boxed{{{problem.answer}}}." for problem in sums(40)]
    grow(MICRO, texts, derive_seed("micro"), directory)
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


@pytest.fixture
def policy(alone: None, micro_model: str, monkeypatch):
    from ratchet.training.logprobs import TILES
    from ratchet.training.policy import Policy

    monkeypatch.setitem(TILES, "cpu", (7, 4096))
    return Policy(micro_model, Hardware(), Optimizer())
