"""What a labeling model could add to the rules: cues, and precision and recall with a server that answers by labels.

No model is run. The server speaks OpenAI's protocol and knows the labels: what it reaches is the bound that the cues
leave, for a model that never errs and (`--wrong`) for one that errs that often at random. It quotes the beginning of
the problem as its evidence. Labels are those of `benchmarks/public_rules.py`, of the statements in the given files, and
of `--labeled` (JSON lines: `text`, `domain`, `labels`, a list of the rules that apply).

    python -m benchmarks.exclusions DATA/*.json* [--labeled FILE] [--wrong 0.1]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from benchmarks import public_rules
from ratchet.data_curation.base.openai_engine import OpenAIEngine
from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.rules.evidence import decided
from ratchet.data_curation.rules.pictures import IN_CODE
from ratchet.data_curation.settings.curation import Rules
from ratchet.data_curation.settings.teacher import Judge
from ratchet.data_curation.split import joined
from ratchet.data_curation.teacher.attempts import collect_attempts
from ratchet.data_curation.teacher.exclusions import CUES, marked, prompts, with_labels
from ratchet.verifiers.problem import Problem, problem_id
from tests.infra.judging_endpoint import JudgingEndpoint

Labels = dict[Problem, dict[str, bool]]


def public_labels(paths: Iterable[Path]) -> Labels:
    """Of each labeled statement in the files: whether each rule that it is labeled for applies."""
    found = {problem.problem_id: problem for problem in public_rules.problems(paths)}
    labels: Labels = defaultdict(dict)
    for label in public_rules.labels():
        for side, applies in (("takes", True), ("leaves", False)):
            for problem in (found[key] for key in label[side] if key in found and label["rule"] in CUES):
                if not IN_CODE.search(problem.prompt):  # labeled as if the drawing were lost
                    labels[problem][label["rule"]] = applies
    return labels


def own_labels(file: Path) -> Labels:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    problems = [
        Problem(problem_id(r["domain"], r["text"]), r["domain"], r["text"], answer=r.get("answer")) for r in rows
    ]
    names = {domain: [r.__name__ for r in plan_of(domain).rules if r.__name__ in CUES] for domain in ("math", "code")}
    return {p: {n: n in r["labels"] for n in names[p.domain]} for p, r in zip(problems, rows, strict=True)}


class Oracle(JudgingEndpoint):
    def __init__(self, labels: Labels, wrong: float) -> None:
        super().__init__()
        known = {problem.prompt: of for problem, of in labels.items()}

        def answer(_: str, asked: str) -> str:
            statement = asked.split("<problem>\n", 1)[1].rsplit("\n</problem>", 1)[0]
            lines = []
            for rule, applies in known.get(statement, {}).items():
                errs = Random(f"{rule} {statement}").random() < wrong
                quote = " ".join(statement.split()[:4])
                lines.append(f'{rule}: YES "{quote}"' if applies != errs else f"{rule}: NO")
            return "\n".join(lines)

        self.answers = answer


def verdicts(labels: Labels, domain: str, wrong: float) -> Iterator[tuple[str, bool, bool, bool, bool]]:
    """(rule, whether it applies, has the cue, is taken by the rule, is taken with the step) of each label."""
    problems = [problem for problem in labels if problem.domain == domain]
    table, endpoint = to_table(problems), Oracle(labels, wrong)
    names = [rule.__name__ for rule in plan_of(domain).rules if rule.__name__ in CUES]
    model = Judge(kind="openai", model="labels")
    engine = OpenAIEngine(model.model, endpoint.url, concurrency=8)
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory, "replies.parquet")
        try:
            collect_attempts(prompts(lambda: [table], names), engine, model, Path(directory, "j.jsonl"), 0, output)
        finally:
            engine.close()
            endpoint.close()
        replies = pq.ParquetFile(output).iter_batches()
        labeled = joined(with_labels(lambda: [table], names, replies, model.model)).kept
    rules = {rule.__name__: rule for rule in plan_of(domain).rules}
    for problem, metadata in zip(problems, labeled["metadata"].to_pylist(), strict=True):
        cues, said = marked(problem.prompt, names), decided(metadata)[1]
        for rule, applies in labels[problem].items():
            taken = bool(rules[rule](problem, Rules()))
            yield rule, applies, rule in cues, taken, said[rule]["applies"] if rule in said else taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--labeled", type=Path)
    parser.add_argument("--wrong", type=float, default=0.0, help="share of the server's answers that are wrong")
    given = parser.parse_args()
    labels = own_labels(given.labeled) if given.labeled else public_labels(given.paths)
    print("| domain | rule | labels | it applies | of these with the cue | the rule: precision | recall "
          "| with the server: precision | recall |\n|---|---|" + "---:|" * 7)  # fmt: skip
    for domain in sorted({problem.domain for problem in labels}):
        of_rule = defaultdict(list)
        for rule, *verdict in verdicts(labels, domain, given.wrong):
            of_rule[rule].append(verdict)
        for rule, found in of_rule.items():
            cells = [len(found), sum(v[0] for v in found), sum(v[0] and v[1] for v in found)]
            for place in (2, 3):
                right, taken = sum(v[0] and v[place] for v in found), sum(v[place] for v in found)
                cells += [f"{right / max(taken, 1):.3f}", f"{right / max(cells[1], 1):.3f}"]
            print(f"| {domain} | {rule} | " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
