"""Two ranks, for `test_invariance.py` to compare one with:
`python -m tests.training.two_ranks MODEL_DIR OUT_DIR`."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import torch

from ratchet.infra.recipe.training import Hardware
from ratchet.training import ranks
from ratchet.training.checkpoint import Checkpoints
from tests.training.batch import EACH_LOSS, gradient, groups, learn_in_parts, learner, weights
from tests.training.elastic import run


def one_rank(model: str, out: Path) -> None:
    ranks.join()
    found = {"turns": [ranks.gather(list(chain(*ranks.assign(number)))) for number in (0, 1, 7)]}
    found["ranks_per_engine"] = ranks.gather(list(chain(*ranks.assign(3, ranks_per_engine=2))))
    for stage in range(4):
        policy, learns = learner(model, Hardware(zero_stage=stage, packed=stage % 2 == 1, micro_batch_tokens=60))
        found[f"read {stage}"] = weights(policy)
        learns.learn(groups(0), 1.0)
        found[f"gradient {stage}"] = gradient(policy)
        checkpoints = Checkpoints(out / str(stage), policy)
        checkpoints.save(1, {})
        learns.learn(groups(1, policy.version), 1.0)
        found[f"weights {stage}"] = weights(policy)
        assert checkpoints.restore() == (1, {})
        learns.learn(groups(1, policy.version), 1.0)
        found[f"resumed {stage}"] = weights(policy)
        policy, learns = learner(model, Hardware(zero_stage=stage, micro_batch_tokens=50), **EACH_LOSS[stage])
        metrics = learn_in_parts(learns, groups(0, **EACH_LOSS[stage]), 1.0)
        assert 0.3 < metrics["learned_early"] <= 1
        found[f"early gradient {stage}"] = gradient(policy)
    if ranks.rank() == 0:
        torch.save(found, out / "found.pt")
    ranks.leave()


if __name__ == "__main__":
    run(one_rank, 2)
