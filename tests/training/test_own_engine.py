"""The engine of docs/howto/engine.md, in a file of its own, in a real stage and a real evaluation."""

from __future__ import annotations

import re

import pytest
import torch
from safetensors.torch import load_file

from ratchet.data_curation.base.protocol import Request, Sampling
from ratchet.infra.inference.engine import ENGINES
from ratchet.infra.recipe.training import Hardware
from ratchet.training.sampler import Sampler, open_sampler
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import IMPORT_PATH
from tests.training.processes import ENVIRONMENT, RECIPE, ROOT, STEPS, done, finish, kill_when, metrics, weights

KIND = "lab_engine:LabEngine"
THREAD = """# the same, sampled from on a thread of its own
from contextlib import contextmanager
from lab_engine import LabEngine


class Thread(LabEngine):
    @contextmanager
    def open_for_training(self, *given):
        with super().open_for_training(*given) as engine:
            engine.separate_devices = engine.continuous_batching = True
            yield engine
"""


@pytest.fixture(autouse=True)
def lab(tmp_path_factory, monkeypatch):
    directory = tmp_path_factory.mktemp("lab")
    (code,) = re.findall(
        r"```python\n(# lab_engine\.py\n.*?)```", (ROOT / "docs/howto/engine.md").read_text(), re.DOTALL
    )
    (directory / "lab_engine.py").write_text(code)
    (directory / "lab_thread.py").write_text(THREAD)
    monkeypatch.setenv(IMPORT_PATH, str(directory))
    monkeypatch.setitem(ENVIRONMENT, IMPORT_PATH, str(directory))
    yield
    ENGINES._loaded.pop(KIND, None)


@pytest.mark.slow
def test_a_stage_with_an_engine_of_ones_own_learns_what_it_learns_with_ours(learnt_model, tmp_path):
    """Bit for bit. While it samples and killed, up to the order in which numbers are added, and what AdamW makes of
    that."""
    found, lab = {}, "lab_thread:Thread"
    for name, kind in (("ours", "transformers"), ("own", KIND), ("meanwhile", lab), ("killed", lab)):
        recipe, work = RECIPE.model_dump(mode="json"), tmp_path / name
        recipe["training"]["engine"] = {"kind": kind}
        recipe["training"]["hardware"]["micro_batch_tokens"] = 60
        if name == "killed":
            kill_when(lambda work=work: done(work) >= 3, work, learnt_model, recipe=recipe)
        finish(work, learnt_model, recipe=recipe)
        assert [line["step"] for line in metrics(work)] == list(range(1, STEPS + 1))
        found[name] = load_file(work / "work" / "model" / "model.safetensors")
    assert weights(tmp_path / "ours") == weights(tmp_path / "own")
    lines = metrics(tmp_path / "own")
    assert [line["weight_version"] for line in lines] == sorted({line["weight_version"] for line in lines})
    assert max(line["weight_probe"] for line in lines) < 1e-5
    assert max(line.get("learned_early", 0.0) for line in metrics(work)) > 0.2
    assert not any("learned_early" in line for line in metrics(tmp_path / "ours"))
    for name in ("meanwhile", "killed"):
        for parameter, weight in found["ours"].items():
            torch.testing.assert_close(found[name][parameter], weight, atol=1e-4, rtol=0)


def test_weights_that_did_not_arrive_and_completions_of_another_version_end_the_run(policy, micro_model, tmp_path):
    training = RECIPE.training.model_copy(update={"engine": ENGINES.get(KIND)(kind=KIND), "hardware": Hardware()})
    asked, sampling = [Request(key=i, seed=i, prompt_ids=(5, 6, 7)) for i in range(4)], Sampling(max_tokens=8)
    with open_sampler(policy, training, micro_model, tmp_path) as sampler:
        assert len(list(sampler.generate([asked], sampling))) == 4 and sampler.facts["weight_version"] == 1
        with torch.no_grad():
            for parameter in policy.model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.01)
        assert len(list(sampler.generate([asked], sampling))) == 4
        engine = sampler._engine
        assert isinstance(sampler, Sampler)
        engine.policy = type("Old", (), {"weights": lambda self: iter([])})()
        with torch.no_grad():
            for parameter in policy.model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.01)
        with pytest.raises(RatchetError, match="does not have all of them"):
            list(sampler.generate([asked], sampling))
        engine.policy, engine.receive = policy, lambda version: setattr(engine, "version", "somebody else's")
        with pytest.raises(RatchetError, match="does another run use it"):
            list(sampler.generate([asked], sampling))
