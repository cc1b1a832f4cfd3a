"""Judge every generation, and group equal answers into classes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ratchet.data_curation.base.protocol import says_nothing
from ratchet.evaluation.sampling import GENERATION_SCHEMA
from ratchet.verifiers.domains import domain_of
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.extraction import after_thinking
from ratchet.verifiers.math.answer_patterns import ANSWER_PATTERNS, BOXED, answer_by, submit_by
from ratchet.verifiers.math.equivalence import equivalent
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.serving.pool import Pool

GRADED_SCHEMA = pa.schema(
    [
        *GENERATION_SCHEMA,
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("decided_by", pa.string(), nullable=False),
        pa.field("fraction", pa.float64(), nullable=False),
        pa.field("extracted", pa.large_string()),
        pa.field("empty", pa.bool_(), nullable=False),  # complete, with no text after the thinking
        pa.field("answer_class", pa.int32()),  # math: the same for equal answers to a question; 0 is right
    ]
)

RIGHT = 0
"""The class of all answers that the verifier accepts."""
MAX_CLASSES = 64
"""Most wrong answers that a new one is compared with; beyond them, answers are compared only by text."""


MANY_WITHOUT = 0.2
"""Share of responses without an answer above which an evaluation warns."""
EXAMPLES, EXAMPLE_CHARACTERS = 3, 200


class Grading:
    """A grading of one evaluation: submits generations to the verifier pool during sampling, and collects the verdicts.

    `problems`, `prefixes` and `patterns` (`Benchmark.answer_pattern`) by benchmark; a prefix, such as `<think>`, is the
    part of each response that the prompt contains, and is judged with it.
    """

    def __init__(
        self, pool: Pool, problems: Mapping[str, Sequence[Problem]], prefixes: Mapping[str, str],
        patterns: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.pool, self.prefixes, self.patterns = pool, prefixes, patterns or {}
        self.problems = {name: {problem.problem_id: problem for problem in each} for name, each in problems.items()}
        self.votes = {name for name, each in problems.items() if all(domain_of(p.domain).answers_vote for p in each)}
        self.verdicts: dict[tuple[str, str, int], Verdict] = {}
        self.classes: dict[tuple[str, str, int], int | None] = {}

    def submit(self, generations: Iterable[Mapping[str, Any]]) -> None:
        """Submit rows of `GENERATION_SCHEMA`. A failed request becomes an infra error."""
        for row in generations:
            ticket = (row["benchmark"], row["problem_id"], row["sample"])
            if row["finish_reason"] == "error":
                self.verdicts[ticket] = Verdict(Outcome.INFRA_ERROR, decided_by="engine", detail=row["text"])
            else:
                problem = self.problems[row["benchmark"]][row["problem_id"]]
                response, finished = self.prefixes[row["benchmark"]] + row["text"], row["finish_reason"] != "length"
                pattern = self.patterns.get(row["benchmark"], BOXED)
                at_once = submit_by(pattern, self.pool, ticket, problem, response, finished)
                if at_once is not None:
                    self.verdicts[ticket] = at_once

    def collect(self) -> None:
        """Wait for all verdicts, then classify the answers."""
        self.verdicts.update(self.pool.results())
        questions: dict[tuple[str, str], list[tuple[str, str, int]]] = defaultdict(list)
        for key in sorted(self.verdicts):
            if key[0] in self.votes:
                questions[key[:2]].append(key)
        for keys in questions.values():
            self.classes.update(zip(keys, answer_classes([self.verdicts[key] for key in keys]), strict=True))

    def require_verdicts(self, max_infra_errors: float) -> None:
        """Raises RatchetError when the share of infra errors is larger than this in any benchmark."""
        verdicts: dict[str, list[Verdict]] = defaultdict(list)
        for (benchmark, _, _), verdict in self.verdicts.items():
            verdicts[benchmark].append(verdict)
        for benchmark, own in verdicts.items():
            missing = [verdict for verdict in own if verdict.outcome is Outcome.INFRA_ERROR]
            if len(missing) > max_infra_errors * len(own):
                raise RatchetError(
                    f"{benchmark}: {len(missing)} of {len(own)} responses could not be sampled or judged; the last "
                    f"error: {missing[-1].detail or missing[-1].decided_by}. Run again: sampled responses are kept. "
                    "training.advanced.max_infra_errors is the share of a benchmark's responses that may be missing."
                )

    def graded(self, generations: pa.Table) -> pa.Table:
        """The generations with their verdicts, in `GRADED_SCHEMA`."""
        names = ("benchmark", "problem_id", "sample")
        keys = list(zip(*(generations[name].to_pylist() for name in names), strict=True))
        verdicts = [self.verdicts[key] for key in keys]
        ended = zip(*(generations[name].to_pylist() for name in ("finish_reason", "text")), strict=True)
        columns = {
            "outcome": [verdict.outcome.value for verdict in verdicts],
            "decided_by": [verdict.decided_by for verdict in verdicts],
            "fraction": [verdict.fraction for verdict in verdicts],
            "extracted": [verdict.extracted for verdict in verdicts],
            "empty": [end not in ("length", "error") and says_nothing(text, "stop") for end, text in ended],
            "answer_class": [self.classes.get(key) for key in keys],
        }
        arrays = [*generations.columns, *(pa.array(v, GRADED_SCHEMA.field(n).type) for n, v in columns.items())]
        return pa.table(arrays, schema=GRADED_SCHEMA)


def answer_classes(verdicts: Sequence[Verdict]) -> list[int | None]:
    """A class number for each response to one question; None, no vote, without an answer and for infra errors.

    Wrong answers that the verifier finds equal share a class, so that notation does not split a wrong majority.
    """
    classes: list[int | None] = []
    by_text: dict[str, int] = {}
    rivals: list[str] = []
    for verdict in verdicts:
        answer = verdict.extracted or ""
        text = "".join(answer.split())
        if verdict.outcome is Outcome.PASSED:
            classes.append(RIGHT)
        elif verdict.outcome is Outcome.INFRA_ERROR or not text:
            classes.append(None)
        else:
            if text not in by_text:
                same = (i for i, rival in enumerate(rivals[:MAX_CLASSES]) if equivalent(rival, answer))
                by_text[text] = next(same, len(rivals))
                if by_text[text] == len(rivals):
                    rivals.append(answer)
            classes.append(RIGHT + 1 + by_text[text])
    return classes


def without_answers(pattern: str, responses: Iterable[str]) -> dict[str, Any]:
    """Facts about responses in which `pattern` finds no answer: the ends of three as `examples`, and `preset`, the
    first that reads most of them (None if none does), with the share that it `reads`."""
    texts = list(responses)
    shares = {name: sum(answer_by(name, text) is not None for text in texts) / len(texts)
              for name in (BOXED, *ANSWER_PATTERNS, "stated") if name != pattern}  # fmt: skip
    preset = next((name for name, share in shares.items() if share > 0.5), None)
    ends = [" ".join((after_thinking(text) or text).split())[-EXAMPLE_CHARACTERS:] for text in texts]
    shown = list(dict.fromkeys(filter(None, ends)))[:EXAMPLES]
    return {"examples": shown, "preset": preset, "reads": shares[preset] if preset else None}
