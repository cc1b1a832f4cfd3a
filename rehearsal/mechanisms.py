"""What a recipe asks for, and the artifact of its rehearsal that shows it, or none."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.readers.sources import source_names
from ratchet.evaluation.home import open_home
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.curation import Curation
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.infra.recipe.interventions import Intervention
from ratchet.infra.recipe.training import Stage
from ratchet.infra.settings import load_settings
from ratchet.infra.store.approvals import Approvals
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.journal import read_lines
from ratchet.training.interventions import RULE

Records = list[dict[str, Any]]
EXACT = 1e-9


@dataclass(frozen=True)
class Mechanism:
    """`evidence` says what was seen, or what would have shown it; `artifact` is where."""

    name: str
    seen: bool
    evidence: str
    artifact: str = ""


class Traces:
    """What a rehearsal has left in its home."""

    def __init__(self, directory: Path) -> None:
        self.home = open_home(directory)
        self.approvals = Approvals(load_settings(directory))
        self.artifacts = {(artifact.kind, artifact.name): artifact for artifact in self.home.store.all()}

    def find(self, kind: str, name: str) -> Artifact | None:
        return self.artifacts.get((kind, name))

    def lines(self, kind: str, name: str, file: str) -> Records:
        artifact = self.find(kind, name)
        return [line for _, line in read_lines(artifact.path / file)] if artifact else []

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, Any]]:
        """Of each evaluated checkpoint, by benchmark."""
        scores = {
            a.name: json.loads((a.path / "scores.json").read_text())
            for (kind, _), a in self.artifacts.items()
            if kind == "evaluation"
        }
        return {name: one["benchmarks"] for name, one in scores.items()}


def mechanisms(recipe: Recipe, home: Path) -> list[Mechanism]:
    """Of a reduced recipe, in the order in which they happen."""
    traces = Traces(home)
    rows: list[Mechanism] = []
    for domain, curation in recipe.curation.items():
        rows += _curation(domain, curation, traces)
    rows += _start(recipe, traces)
    for stage in recipe.training.stages:
        rows += _stage(stage, traces)
    for benchmark in recipe.evaluation.benchmarks:
        rows += _benchmark(benchmark, recipe, traces)
    return [*rows, *_end(recipe, traces)]


def _ref(artifact: Artifact | None) -> str:
    return artifact.ref if artifact else ""


# Curation


def _curation(domain: str, curation: Curation, traces: Traces) -> Iterator[Mechanism]:
    problems, curated = traces.find("problems", f"{domain}-normalise"), traces.find("problems", f"{domain}-curated")
    kept = _sources(curated.kept) if curated else Counter()
    read = (_sources(problems.kept) if problems else Counter()) + (
        _sources(problems.rejected) if problems else Counter()
    )
    names = _source_by_input(curation.inputs, problems)
    for source in curation.inputs:
        own = [name for name, of in names.items() if of == source]
        rows, left = sum(read[name] for name in own), sum(kept[name] for name in own)
        yield Mechanism(f"{domain}: {source} curated", left > 0, f"{left} of {rows} rows kept", _ref(curated))
    decontaminated = traces.find("problems", f"{domain}-decontaminate")
    against = {facts["name"]: facts for facts in (decontaminated.manifest["inputs"] if decontaminated else [])}
    held_out = len(against) - 1 if against else 0
    if curation.benchmarks:
        words = f"{held_out} held-out sets compared"
        yield Mechanism(
            f"{domain}: held-out benchmarks read", held_out >= len({*curation.benchmarks}), words, _ref(decontaminated)
        )
    plan = plan_of(domain)
    steps = [*plan.steps[1:], *(plan.teacher_steps if curation.teacher.kind != "none" else ())]
    for step in steps:
        yield _filter(domain, step, traces.find("problems", f"{domain}-{step}"))
    if limit := curation.decontaminate.released_after:
        dropped = _rules(decontaminated)["released_after"]
        yield Mechanism(
            f"{domain}: released after {limit}", dropped > 0, f"{dropped} rows dropped", _ref(decontaminated)
        )
    if curation.teacher.kind != "none":
        attempts = traces.find("attempts", domain)
        count = sum((attempts.manifest["counts"] if attempts else {}).values())
        yield Mechanism(
            f"{domain}: teacher attempts", count > 0, f"{attempts.summary if attempts else 'none'}", _ref(attempts)
        )


def _filter(domain: str, step: str, artifact: Artifact | None) -> Mechanism:
    """A step that drops rows, and keeps some."""
    rules = _rules(artifact)
    words = ", ".join(f"{rule} {count}" for rule, count in rules.most_common()) or "no row dropped"
    kept = artifact.manifest["counts"]["kept"] if artifact else 0
    return Mechanism(f"{domain}: {step}", bool(rules) and kept > 0, f"{words}; {kept} kept", _ref(artifact))


def _rules(artifact: Artifact | None) -> Counter[str]:
    rejected = artifact and artifact.path / "rejected.parquet"
    return Counter(
        pq.read_table(rejected, columns=["rule"])["rule"].to_pylist() if rejected and rejected.is_file() else ()
    )


def _sources(file: Path) -> Counter[str]:
    return Counter(pq.read_table(file, columns=["source"])["source"].to_pylist()) if file.is_file() else Counter()


def _source_by_input(inputs: Sequence[str], problems: Artifact | None) -> dict[str, str]:
    """Which input of the recipe each source of rows comes from."""
    facts = problems.manifest["inputs"] if problems else []
    paths = [Path(each["path"]) for each in facts]
    owners = {}
    for name, path in zip(source_names(paths), paths, strict=True):
        for wanted in inputs:
            plain = (
                wanted.removeprefix("hf://").removeprefix("datasets/").removeprefix("generated://").partition("@")[0]
            )
            repository = "--".join(plain.split("/")[:2])
            if f"datasets--{repository}/" in str(path) or str(path).endswith(plain) or Path(plain) in path.parents:
                owners[name] = wanted
    return owners


# Training


def _start(recipe: Recipe, traces: Traces) -> Iterator[Mechanism]:
    start = traces.find("checkpoint", "start")
    how = "learned from traces" if recipe.training.warm_start else "read and written by the trainer"
    if recipe.training.stages:
        yield Mechanism(f"start model {recipe.model.path or 'grown'}", start is not None, how, _ref(start))


def _stage(stage: Stage, traces: Traces) -> Iterator[Mechanism]:
    artifact = traces.find("checkpoint", stage.name)
    steps = traces.lines("checkpoint", stage.name, "metrics.jsonl")
    decisions = traces.lines("checkpoint", stage.name, "decisions.jsonl")
    samples = traces.lines("checkpoint", stage.name, "samples.jsonl")
    rules = Counter(line["rule"] for line in decisions)

    def row(name: str, seen: bool, evidence: str) -> Mechanism:
        return Mechanism(
            f"{stage.name}: {name}", bool(seen), evidence if steps else "the stage has not run", _ref(artifact)
        )

    learned = [line for line in steps if line.get("grad_norm", 0) > 0]
    yield row("weights learn", bool(learned), f"{len(learned)} of {len(steps)} steps with a gradient")
    varied = [line for line in steps if 0 < line["pass_rate"] < 1]
    yield row("rewards differ", bool(varied), f"{len(varied)} steps with passed and failed responses")
    if len(stage.mix) > 1:
        drawn = [domain for domain in stage.mix if any(f"{domain}/pass_rate" in line for line in steps)]
        passed = [domain for domain in drawn if any(line.get(f"{domain}/pass_rate", 0) > 0 for line in steps)]
        yield row("mixture", len(drawn) == len(stage.mix), f"drawn: {', '.join(drawn)}; passed: {', '.join(passed)}")
    for field, rule, words in (
        (stage.max_difficulty, "max_difficulty", "difficulty limit"),
        (stage.max_pass_rate, "max_pass_rate", "hard-prompt filter at the entrance"),
        (stage.advanced.drop_easy_each_epoch or None, "easy_in_epoch", "epoch filter"),
    ):
        if field is not None:
            yield row(words, rules[rule] > 0, f"{rules[rule]} prompts dropped")
    for name, value in (("temperature", stage.temperature), ("rollouts", stage.rollouts)):
        if isinstance(value, tuple):
            reached = list(dict.fromkeys(line.get(name) for line in steps))
            shown = " → ".join(f"{number:g}" for number in reached if number is not None)
            yield row(f"{name} schedule", all(any(abs(v - (r or 0)) < EXACT for r in reached) for v in value), shown)
    yield from _rewards(stage, steps, samples, row)
    yield from _loss(stage, steps, row)
    for number, intervention in enumerate(stage.interventions):
        yield _intervention(number, intervention, decisions, row)
    if stage.validates:
        scores = [line["validation"] for line in steps if "validation" in line]
        missing = [
            name
            for name in stage.validation
            if len(stage.validation) > 1 and not any(f"validation/{name}" in line for line in steps)
        ]
        words = f"{len(scores)} validations" + (f", without {', '.join(missing)}" if missing else "")
        yield row("validation", bool(scores) and not missing, words)


def _rewards(stage: Stage, steps: Records, samples: Records, row: Any) -> Iterator[Mechanism]:
    truncated = [line for line in samples if line["shown"] == "truncated"]
    shares = [line["truncated"] for line in steps]
    lowest = min([line["reward"] for line in truncated], default=0.0)
    share = f"{max(shares, default=0):.0%} of the responses of a step"
    if stage.unfinished_penalty:
        yield row("unfinished penalty", lowest < 0, f"a truncated response has reward {lowest:g}")
    elif stage.truncation == "soft_overlong":
        yield row("penalty by length", lowest < 0, f"a truncated response has reward {lowest:g}")
    else:
        yield row(f"truncation: {stage.truncation}", max(shares, default=0) > 0, share)
    for domain in stage.advanced.graded:
        name = f"{domain}/" if len(stage.domains) > 1 else ""
        more = [s[f"{name}reward"] - s[f"{name}pass_rate"] for s in steps if f"{name}reward" in s]
        yield row(
            f"graded rewards: {domain}",
            max(more, default=0) > EXACT,
            f"reward above pass rate by up to {max(more, default=0):.3f}",
        )
    if stage.dynamic_sampling_rounds:
        rounds = max([line.get("sampling_rounds", 0) for line in steps], default=0)
        yield row("dynamic sampling", rounds > 1, f"up to {rounds:.0f} rounds for a batch")


def _loss(stage: Stage, steps: Records, row: Any) -> Iterator[Mechanism]:
    if stage.updates_per_batch > 1:
        moved = max([line.get("ratio_deviation", 0) for line in steps], default=0)
        yield row(
            f"{stage.updates_per_batch} updates a batch", moved > 0, f"ratios differ from one by up to {moved:.2g}"
        )
        clipped = max([line.get("clip_fraction", 0) for line in steps], default=0)
        yield row(
            "clipped ratios measured",
            any("clip_fraction" in line for line in steps),
            f"up to {clipped:.2%} of the tokens",
        )
    if stage.kl_coefficient:
        first, last = (
            ([line["kl"] for line in steps if "kl" in line] or [0.0])[0],
            max([line.get("kl", 0) for line in steps], default=0),
        )
        yield row("KL to the reference", last > 0, f"from {first:.2g} to {last:.2g} nats per token")
    if stage.importance_cap is not None:
        weights = [line["importance_weight"] for line in steps if "importance_weight" in line]
        yield row(
            "importance cap", bool(weights), f"mean weight {weights[-1]:.4f}" if weights else "no weight measured"
        )


def _intervention(number: int, intervention: Intervention, decisions: Records, row: Any) -> Mechanism:
    do = intervention.do
    words = "stop" if do.stop else "reset" if do.reset else "change"
    due = [line for line in decisions if line["rule"] == RULE and line["number"] == number]
    when = f"after step {due[0]['step']}" if due else "not due in the stage"
    return row(f"{words} at {intervention.when.trigger[0]}", bool(due), when)


# Evaluation


def _benchmark(benchmark: Benchmark, recipe: Recipe, traces: Traces) -> Iterator[Mechanism]:
    name, points = benchmark.name, recipe.evaluation.after
    scored = [traces.scores[point][name] for point in points if name in traces.scores.get(point, {})]
    responses = [sum(one["samples_graded"] for one in scored), sum(one["infra_errors"] for one in scored)]
    counts = [count for one in scored for count in one["problems"].values()]
    passed = sum(right for right, _ in counts)
    graded = sum(number for _, number in counts)
    last = traces.find("evaluation", points[-1]) if points else None
    whole = len(scored) == len(points) and responses[1] == 0 and responses[0] > 0
    words = f"{len(scored)} of {len(points)} checkpoints; {passed} of {graded} responses passed"
    yield Mechanism(f"benchmark {name} read and scored", whole and 0 < passed < graded, words, _ref(last))


def _end(recipe: Recipe, traces: Traces) -> Iterator[Mechanism]:
    if recipe.evaluation.after:
        ks = {int(k) for one in traces.scores.values() for scores in one.values() for k in scores["pass_at"]}
        wanted = {k for each in recipe.evaluation.benchmarks for k in each.pass_at or recipe.evaluation.pass_at}
        yield Mechanism("pass@k", wanted <= ks, f"k = {', '.join(map(str, sorted(ks))) or 'none'}")
        report = traces.find("report", recipe.name)
        page = report and report.path / "report.html"
        text = page.read_text() if page and page.is_file() else ""
        absent = [each.name for each in recipe.evaluation.benchmarks if each.name not in text]
        yield Mechanism(
            "report",
            bool(text) and not absent,
            f"without {', '.join(absent)}" if absent else f"{len(text):,} bytes",
            _ref(report),
        )
    for gate in recipe.approve:
        decided = [approval for approval in traces.approvals.all() if approval.gate == gate and approval.approved]
        yield Mechanism(f"approval of {gate}", bool(decided), str(decided[0]) if decided else "nobody was asked")
    if recipe.gate:
        verdict = traces.find("gate", recipe.name)
        yield Mechanism(
            "gate for the alias best", verdict is not None, verdict.summary if verdict else "no verdict", _ref(verdict)
        )
