"""Run a domain's own `score`, each call in a confined process that is forked for it and killed at its limits.

The fork server is the code sandbox's (docs/explanation/sandbox.md), with the domain imported once. Only the process
that scores has problem and answer.
"""

import json
import os
import sysconfig
from collections.abc import Callable
from numbers import Real
from typing import Any

from ratchet.verifiers.domain import Domain, scored
from ratchet.verifiers.domains import DOMAINS, OWN_DOMAINS, domain_of, known_domains
from ratchet.verifiers.environments.domain import ENVIRONMENTS
from ratchet.verifiers.errors import with_place
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem, from_judged_fields, judged_fields
from ratchet.verifiers.registry import IMPORT_PATH
from ratchet.verifiers.sandbox import harness
from ratchet.verifiers.sandbox.runs import Limits
from ratchet.verifiers.sandbox.server import Sandbox

TIME_LIMIT_S = 5.0
"""Seconds of CPU time and sleep for one score."""
MEMORY_BYTES = 1 << 30
"""Bytes of memory for one score, on top of the imported domain."""
_INHERITED = (
    IMPORT_PATH, OWN_DOMAINS, ENVIRONMENTS, "PYTHONPATH", "LD_LIBRARY_PATH",
    "HOME", "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_ENDPOINT", "HF_HUB_OFFLINE",  # for data sets
)  # fmt: skip


class IsolatedVerifier:
    """One fork server of one domain. Not thread-safe. Starts on first use, and again after `close`."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        cls = type(domain)
        # A domain without a registered name, such as math-verify, is found by its class.
        of = domain.name if domain.name in known_domains() else f"{cls.__module__}:{cls.__qualname__}"
        site = [*sysconfig.get_paths().values(), *filter(None, os.environ.get(IMPORT_PATH, "").split(os.pathsep))]
        self._sandbox = Sandbox(work=(__name__, of), site=site, inherited=_INHERITED)
        self.close = self._sandbox.close

    def verify(self, problem: Problem, answer: str) -> Verdict:
        """Judge one answer. Raises SandboxFault if the server cannot be started or was killed."""
        job = {"problem": json.dumps(judged_fields(problem)), "answer": str(answer)}
        limits = Limits(TIME_LIMIT_S, TIME_LIMIT_S, MEMORY_BYTES, output_bytes=1 << 16)
        [run] = self._sandbox.run("", [job], limits, entry_point=None, prelude=None).runs
        if run.status == "done":
            try:
                return scored(json.loads(run.output), answer)
            except (TypeError, ValueError) as error:
                return self._defect(str(error), answer)
        if run.status in ("timed_out", "exhausted"):
            limit = "time_limit" if run.status == "timed_out" else "memory_limit"
            return Verdict(Outcome.TIMEOUT, decided_by=limit, extracted=answer)
        if run.status == "raised":  # a bug of the domain: a zero reward would hide it
            return self._defect(f"{self.domain.name}.score raised {run.detail}", answer)
        detail = f"its process ended without a score: {run.detail or run.status}"
        return Verdict(Outcome.FAILED, decided_by="crash", detail=detail, extracted=answer)

    def _defect(self, detail: str, answer: str) -> Verdict:
        return Verdict(Outcome.INFRA_ERROR, decided_by="score", detail=detail, extracted=answer)


def work(of: str) -> Callable[[harness.Files, Any], None]:
    """The function that a confined process of the fork server runs for one answer."""
    domain = DOMAINS.load(of)() if ":" in of else domain_of(of)
    domain.load()

    def score(files: harness.Files, _: Any) -> None:
        [job] = harness.read_job(files)["tests"]
        os.dup2(files.null, 0)
        os.dup2(files.null, 1)  # a domain may print
        try:
            value: object = domain.score(from_judged_fields(json.loads(job["problem"])), job["answer"])
            is_number = isinstance(value, Real)
            record = {"status": "done", "output": json.dumps(float(value) if is_number else repr(value)[:200])}
        except MemoryError:
            record = {"status": "exhausted"}
        except BaseException as error:
            record = {"status": "raised", "detail": with_place(error)}
        harness.report(files.report, record)

    return score
