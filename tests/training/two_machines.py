"""Four ranks as on two machines, for `test_invariance.py`: `python -m tests.training.two_machines MODEL_DIR OUT_DIR`.

With and without each machine's copy of the weights: which groups gathered, and what was learned."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch
from deepspeed.comm import comm

from ratchet.infra.recipe.training import Hardware
from ratchet.training import policy as policies
from ratchet.training import ranks
from ratchet.training.checkpoint import Checkpoints
from tests.training.batch import groups, learner, weights
from tests.training.elastic import run


def one_rank(model: str, out: Path) -> None:
    ranks.join()
    found, sizes = {}, Counter[int]()
    plain = policies.configuration

    def without_persistent(*arguments) -> dict:
        """DeepSpeed keeps weights as small as these whole."""
        asked = plain(*arguments)
        asked["zero_optimization"]["stage3_param_persistence_threshold"] = 0
        return asked

    policies.configuration = without_persistent
    backend = comm.cdb
    gather = backend.all_gather_function

    def counted(*arguments, group=None, **named):
        sizes[torch.distributed.get_world_size(group)] += 1
        return gather(*arguments, group=group, **named)

    backend.all_gather_function = counted
    for copied in (False, True):
        sizes.clear()
        hardware = Hardware(
            machines=2, processes=2, zero_stage=3, micro_batch_tokens=40, advanced={"hierarchical": copied}
        )
        policy, learns = learner(model, hardware)
        found[f"read {copied}"] = weights(policy)
        learns.learn(groups(0), 1.0)
        checkpoints = Checkpoints(out / str(copied), policy)
        checkpoints.save(1, {})
        learns.learn(groups(1, policy.version), 1.0)
        found[f"learned {copied}"] = weights(policy)
        learns.old_logprobs(groups(1), 1.0)  # leaves copies of gathered weights
        assert checkpoints.restore() == (1, {})
        found[f"restored {copied}"] = weights(policy)
        learns.learn(groups(1, policy.version), 1.0)
        found[f"resumed {copied}"] = weights(policy)
        found[f"gathers {copied}"] = dict(sizes)
        found[f"copies {copied}"] = policy.copied_among
    if ranks.rank() == 0:
        torch.save(found, out / "found.pt")
    ranks.leave()


if __name__ == "__main__":
    run(one_rank, 4)
