"""Metrics of a step, and rollouts to read."""

import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from statistics import fmean
from threading import Thread
from typing import Any

import numpy as np
import psutil
import torch

from ratchet.infra.recipe.training import Stage
from ratchet.training import ranks
from ratchet.training.alarms import Alarms
from ratchet.training.groups import Group, by_domain
from ratchet.training.interventions import AppliedIntervention
from ratchet.verifiers.outcome import Outcome

Metrics = dict[str, float]
UTILIZATION_S = 1.0
"""Seconds between readings of a GPU's utilization."""


def step_record(
    reports: Iterable[Metrics], seconds: Metrics, interventions: Sequence[AppliedIntervention], alarms: Alarms
) -> dict[str, Any]:
    """A step's line of `metrics.jsonl`, from what each part reports about the step. Collective."""
    record: dict[str, Any] = {"time": time.time()}
    for report in reports:
        record |= report
    record |= memory() | seconds | {"tokens_per_second": record["sampled_tokens"] / seconds["seconds"]}
    remarks = {"alarms": alarms.check(record), "intervened": [each.summary for each in interventions]}
    return record | {name: words for name, words in remarks.items() if words}


def memory() -> Metrics:
    """The peak memory so far of the largest rank, in GB. Collective."""
    unit = 1 if sys.platform == "darwin" else 1024
    held = {"memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9}
    if torch.cuda.is_available():
        held["gpu_memory_gb"] = torch.cuda.max_memory_allocated() / 1e9
    everyone = ranks.gather(held)
    return {name: max(rank[name] for rank in everyone) for name in held}


class Utilization:
    """Use of the machines in percent since the last report: `cpu_percent` of all cores of the ranks' machines, whoever
    uses them, and `gpu_percent`, the share of time in which the ranks' GPUs run a kernel (if `nvidia-ml-py` is
    installed)."""

    def __init__(self) -> None:
        psutil.cpu_percent()  # begins the first interval
        self._gpu: list[float] = []
        if torch.cuda.is_available():
            Thread(target=self._watch, args=(torch.cuda.current_device(),), daemon=True).start()

    def _watch(self, device: int) -> None:
        """Read the GPU's utilization again and again: NVML has only that of the last moment."""
        with suppress(Exception):  # not installed, no driver that tells, or not for this kind of GPU
            while True:
                self._gpu.append(torch.cuda.utilization(device))
                time.sleep(UTILIZATION_S)

    def report(self) -> dict[str, float]:
        """Metrics since the last report. Collective."""
        gpu, self._gpu = self._gpu, []
        mine = {"cpu_percent": psutil.cpu_percent()} | ({"gpu_percent": fmean(gpu)} if gpu else {})
        everyone = ranks.gather(mine)
        names = dict.fromkeys(name for rank in everyone for name in rank)
        return {name: fmean(rank[name] for rank in everyone if name in rank) for name in names}


def describe(groups: Sequence[Group], stage: Stage) -> Metrics:
    """Metrics of the sampled groups; with several domains also for each domain, as `<domain>/<name>`."""
    parts = by_domain(groups) if len(stage.domains) > 1 else {}
    each = {f"{domain}/{name}": v for domain, part in parts.items() for name, v in _describe(part).items()}
    return {**_describe(groups), **each}


def _describe(groups: Sequence[Group]) -> Metrics:
    """`reward` is over valid rollouts; infra errors count neither there nor in `pass_rate`. `rewritten`: share of the
    passes whose answer is not in the reference's form and had to be evaluated to see that it is equal; `unevaluated`:
    share of the responses that leave arithmetic to do."""
    rollouts = [r for g in groups for r in g.rollouts]
    rewards = [r for g in groups for r, ok in zip(g.rewards, g.valid, strict=True) if ok]
    judged = [r.outcome is Outcome.PASSED for r in rollouts if r.outcome is not Outcome.INFRA_ERROR]
    lengths = [len(r.response) for r in rollouts]
    evaluated = [r.decided_by == "numeric" for r in rollouts if r.outcome is Outcome.PASSED]
    outcomes = Counter(r.outcome for r in rollouts)
    of_advantages = [g.advantages.metrics for g in groups]
    names = dict.fromkeys(chain.from_iterable(of_advantages))
    return {
        **{name: fmean(each[name] for each in of_advantages if name in each) for name in names},
        "reward": fmean(rewards) if rewards else 0.0,
        "pass_rate": fmean(judged) if judged else 0.0,
        "response_tokens": fmean(lengths),
        "truncated": fmean(r.truncated for r in rollouts),
        "zero_variance_groups": fmean(g.advantages.zero_variance for g in groups),
        "all_passed_groups": fmean(g.all_passed for g in groups),
        "all_failed_groups": fmean(g.all_failed for g in groups),
        **{f"response_tokens_p{p}": float(np.percentile(lengths, p)) for p in (10, 50, 90, 99)},
        "rewritten": fmean(evaluated) if evaluated else 0.0,
        "unevaluated": fmean(r.decided_by == "unevaluated" for r in rollouts),
        **{f"outcome_{outcome.value}": outcomes[outcome] / len(rollouts) for outcome in Outcome},
        "infra_errors": float(outcomes[Outcome.INFRA_ERROR]),
    }


def advantage_scales(groups: Sequence[Group], domains: Sequence[str]) -> Metrics:
    """The mean absolute advantage of valid rollouts, of all and as `<domain>/…`."""
    sizes: dict[str, list[float]] = {"advantage_scale": []}
    for members in groups:
        own = [abs(a) for a, ok in zip(members.advantages.values, members.valid, strict=True) if ok]
        for name in ("", f"{members.domain}/")[: 2 if members.domain in domains else 1]:
            sizes.setdefault(f"{name}advantage_scale", []).extend(own)
    return {name: fmean(values) for name, values in sizes.items() if values}


def samples_to_read(groups: Sequence[Group], step: int, tokenizer: Any) -> list[dict[str, Any]]:
    """Three rollouts of each domain to read: the best, the worst, and a truncated one, if any."""
    rows = []
    for part in by_domain(groups).values():
        scored = [each for g in part for each in zip(g.rewards, g.advantages.values, g.rollouts, g.valid, strict=True)]
        valid, truncated = [each for each in scored if each[3]], [each for each in scored if each[2].truncated]
        shown = {"best": max(valid, key=itemgetter(0, 1)), "worst": min(valid, key=itemgetter(0, 1))} if valid else {}
        shown |= {"truncated": truncated[0]} if truncated else {}
        rows += [
            {
                "step": step, "shown": kind, "domain": r.domain, "problem_id": r.problem_id, "outcome": r.outcome.value,
                "reward": reward, "advantage": advantage, "tokens": len(r.response),
                "prompt": tokenizer.decode(r.prompt), "response": tokenizer.decode(r.response),
                **({"versions": r.spans} if r.spans else {}),
            }
            for kind, (reward, advantage, r, _) in shown.items()
        ]  # fmt: skip
    return rows
