"""Try a domain of the user's own while a run is planned, so that a mistake in `score` costs no curation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ratchet.data_curation.preview import first_problems
from ratchet.verifiers.domains import DOMAINS, domain_of
from ratchet.verifiers.errors import RatchetError, with_place
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.local_pool import open_pool
from ratchet.verifiers.serving.pool import gather
from ratchet.verifiers.submission import JudgeSettings, Submission


@dataclass
class DomainTrial:
    """A domain's verdicts on the first rows of a file, if the domain is not a shipped one."""

    domain: str
    file: Path
    columns: Mapping[str, str]

    def check(self) -> None:
        """Raises RatchetError for a row that the domain cannot judge."""
        for row, _, verdict in self._verdicts:
            if verdict.outcome is Outcome.INFRA_ERROR:
                raise RatchetError(f"{self.file}, row {row}: cannot be judged, {verdict.detail}")

    def findings(self) -> Iterator[str]:
        """Lines of a dry run: how many references pass, and a warning if an empty answer does."""
        if any(verdict.outcome is Outcome.INFRA_ERROR for _, _, verdict in self._verdicts):
            return  # `check` says more
        if passed := [verdict.passed for _, answer, verdict in self._verdicts if answer]:
            line = f"The domain {self.domain}: {sum(passed)} of the first {len(passed)} references pass"
            failed = next(((answer, v) for _, answer, v in self._verdicts if answer and not v.passed), None)
            yield line if failed is None else f"! {line}: {failed[0]!r:.80} {_reason(failed[1])}"
        if any(verdict.passed for _, answer, verdict in self._verdicts if not answer):
            yield f"! The domain {self.domain}: an empty answer passes"

    @cached_property
    def _verdicts(self) -> list[tuple[int, str, Verdict]]:
        """Row, answer and verdict, for the reference of each row and for an empty answer."""
        if self.domain in DOMAINS.shipped:
            return []
        tried = [
            (row, problem, answer)
            for row, problem in first_problems(self.file, self.domain, self.columns)
            for answer in dict.fromkeys((self._reference(problem), ""))
        ]
        settings = JudgeSettings(fraction=True)
        with open_pool(workers=1, settings=settings) as pool:
            items = [Submission(problem, answer, is_program=True, settings=settings) for _, problem, answer in tried]
            verdicts = gather(pool.begin, items)
        return [(row, answer, verdict) for (row, _, answer), verdict in zip(tried, verdicts, strict=True)]

    def warnings(self) -> Iterator[str]:
        """The findings that are warnings."""
        return (line for line in self.findings() if line.startswith("!"))

    def _reference(self, problem: Problem) -> str:
        try:
            return domain_of(self.domain).reference(problem)
        except Exception as error:
            raise RatchetError(f"{self.domain}.reference raised {with_place(error)}") from error


def _reason(verdict: Verdict) -> str:
    """The likely mistake, by the score of a reference that does not pass."""
    if verdict.fraction > 0:
        return f"has a score of {verdict.fraction:.4g}, and only 1 passes: evaluations and `result: best` count passes"
    return "fails. `reference` returns what `extract` would"
