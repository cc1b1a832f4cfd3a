"""Find the mechanisms that a recipe asks for, and the artifact of its rehearsal that shows each, or none."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ratchet.data_curation.base.journal import read_lines
from ratchet.data_curation.domains import plan_of
from ratchet.data_curation.readers.sources import source_names
from ratchet.data_curation.rules.evidence import no_answer
from ratchet.data_curation.steps import steps_of
from ratchet.evaluation.report import read_scores
from ratchet.infra.recipe import Recipe
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.infra.recipe.interventions import Intervention
from ratchet.infra.recipe.training import Stage
from ratchet.infra.settings import load_settings
from ratchet.infra.store.approvals import Approvals
from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.tracking.run_record import read_run
from ratchet.rehearsal.samples import in_cache, repository
from ratchet.rehearsal.smaller import clips
from ratchet.tasks.contamination import contaminated_items
from ratchet.tasks.inputs import GENERATED
from ratchet.training.interventions import RULE, WATCHED

Records = list[dict[str, Any]]
EXACT = 1e-9


@dataclass(frozen=True)
class Mechanism:
    """A mechanism and its proof. `evidence` says what was seen, or what would have shown it; `artifact` is where."""

    name: str
    seen: bool
    evidence: str
    artifact: Artifact | None = None

    @property
    def ref(self) -> str:
        return self.artifact.ref if self.artifact else ""


class Evidence:
    """The evidence of one run: artifacts, made or found finished, and events. Nothing of an earlier run counts."""

    def __init__(self, home: Path, journals: Sequence[Path]) -> None:
        self.events = [event for journal in journals for _, event in read_lines(journal)]
        self.approvals = Approvals(load_settings(home))
        outputs = [step.output for run in filter(None, map(read_run, journals)) for step in run.steps]
        self.artifacts = {(artifact.kind, artifact.name): artifact for artifact in outputs if artifact.finished}

    def find(self, kind: str, name: str) -> Artifact | None:
        return self.artifacts.get((kind, name))

    def lines(self, stage: str, file: str) -> Records:
        artifact = self.find("checkpoint", stage)
        return [line for _, line in read_lines(artifact.path / file)] if artifact else []

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, Any]]:
        """Scores of each evaluated checkpoint, by benchmark."""
        evaluations = [artifact for (kind, _), artifact in self.artifacts.items() if kind == "evaluation"]
        return {each.name: read_scores(each.name, each.path).scores["benchmarks"] for each in evaluations}


def mechanisms(recipe: Recipe, evidence: Evidence) -> list[Mechanism]:
    """The mechanisms of a reduced recipe, in the order in which they happen."""
    rows: list[Mechanism] = []
    for domain in recipe.curation:
        rows += _curation(domain, recipe, evidence)
    rows += _start(recipe, evidence)
    for stage in recipe.training.stages:
        rows += _stage(stage, recipe, evidence)
    for benchmark in recipe.evaluation.benchmarks:
        rows += _benchmark(benchmark, recipe, evidence)
    return [*rows, *_end(recipe, evidence)]


# Curation


def _curation(domain: str, recipe: Recipe, evidence: Evidence) -> Iterator[Mechanism]:
    curation, steps = recipe.curation[domain], steps_of(domain, recipe.curation[domain])
    problems, curated = evidence.find("problems", f"{domain}-normalize"), evidence.find("problems", f"{domain}-curated")
    read = (_column(problems.kept, "source") + _column(problems.rejected, "source")) if problems else Counter()
    kept = _column(curated.kept, "source") if curated else Counter()
    inputs = _inputs(curation.inputs, problems)
    for wanted in curation.inputs:
        own = [source for source, name in inputs.items() if name == wanted]
        rows, left = sum(read[source] for source in own), sum(kept[source] for source in own)
        name = Path(wanted).name if Path(wanted).is_absolute() else wanted
        yield Mechanism(f"{domain}: {name} curated", left > 0, f"{left} of {rows} rows kept", curated)
    decontaminated = evidence.find("problems", f"{domain}-decontaminate")
    if curation.benchmarks and any(step.name == "decontaminate" for step in steps):
        held_out = len(decontaminated.manifest.inputs) - 1 if decontaminated else 0  # the other is what is filtered
        seen = held_out >= len({*curation.benchmarks})
        words = f"{held_out} held-out sets compared"
        yield Mechanism(f"{domain}: held-out benchmarks read", seen, words, decontaminated)
    elif curation.benchmarks:
        yield _never_trained(domain, recipe, evidence)
    generated = all(wanted.startswith(GENERATED) for wanted in curation.inputs)
    for step in steps:
        if curation.teacher.kind != "none" or not step.needs_teacher:
            yield _filter(domain, step.name, evidence, generated)
    if limit := curation.decontaminate.released_after:
        dropped = _rules(decontaminated)["released_after"]
        yield Mechanism(f"{domain}: released after {limit}", dropped > 0, f"{dropped} rows dropped", decontaminated)
    if curation.teacher.kind != "none":
        attempts = evidence.find("attempts", domain)
        count = sum((attempts.manifest.counts if attempts else {}).values())
        yield Mechanism(
            f"{domain}: teacher attempts", count > 0, f"{attempts.summary if attempts else 'none'}", attempts
        )


def _never_trained(domain: str, recipe: Recipe, evidence: Evidence) -> Mechanism:
    """Check of a domain without decontamination: no question of its benchmarks is a problem of the training set."""
    check = evidence.find("contamination", "benchmarks")
    flagged = contaminated_items(check) if check else {}
    names = [benchmark.name for benchmark in recipe.evaluation.benchmarks if benchmark.domain == domain]
    trained = [name for name in names if flagged.get(name)]
    words = f"of {', '.join(trained)}" if trained else f"none of {len(names)} benchmarks"
    seen = bool(names) and not trained and flagged.keys() >= {*names}
    return Mechanism(f"{domain}: held-out questions are not trained on", seen, words, check)


def _filter(domain: str, step: str, evidence: Evidence, generated: bool) -> Mechanism:
    """A step that drops rows, and keeps some. Generated rows have nothing to drop; where a domain's only rule is that
    a problem can be judged, reading applies it already."""
    artifact = evidence.find("problems", f"{domain}-{step}")
    rules = _rules(artifact)
    if step == "rules" and plan_of(domain).rules == (no_answer,):
        rules += _rules(evidence.find("problems", f"{domain}-normalize"))
    words = ", ".join(f"{rule} {count}" for rule, count in rules.most_common()) or "no row dropped"
    kept = artifact.manifest.counts["kept"] if artifact else 0
    return Mechanism(f"{domain}: {step}", (generated or bool(rules)) and kept > 0, f"{words}; {kept} kept", artifact)


def _rules(artifact: Artifact | None) -> Counter[str]:
    return _column(artifact.rejected, "rule") if artifact else Counter()


def _column(file: Path, name: str) -> Counter[str]:
    return Counter(pq.read_table(file, columns=[name])[name].to_pylist())


def _inputs(inputs: Sequence[str], problems: Artifact | None) -> dict[str, str]:
    """The recipe's input from which each source of rows comes."""
    paths = [Path(facts["path"]) for facts in problems.manifest.inputs] if problems else []
    owners = {}
    for source, path in zip(source_names(paths), paths, strict=True):
        for wanted in inputs:
            plain = Path(wanted.removeprefix(GENERATED))
            made_here = wanted.startswith(GENERATED) and path.parent.name.startswith(f"{plain.parent}-")
            local = str(path).endswith(str(plain)) or plain in path.parents
            if made_here or local or in_cache(repository(wanted)) in str(path):
                owners[source] = wanted
    return owners


# Training


def _start(recipe: Recipe, evidence: Evidence) -> Iterator[Mechanism]:
    start = evidence.find("checkpoint", "start")
    how = "learned from traces" if recipe.training.warm_start else "read and written by the trainer"
    if recipe.training.stages:
        yield Mechanism(f"start model {recipe.model.path or 'with random weights'}", start is not None, how, start)


def _stage(stage: Stage, recipe: Recipe, evidence: Evidence) -> Iterator[Mechanism]:
    artifact = evidence.find("checkpoint", stage.name)
    steps = evidence.lines(stage.name, "metrics.jsonl")
    decisions = evidence.lines(stage.name, "decisions.jsonl")
    samples = evidence.lines(stage.name, "samples.jsonl")
    rules = Counter(line["rule"] for line in decisions)

    def row(name: str, seen: bool, evidence: str) -> Mechanism:
        return Mechanism(f"{stage.name}: {name}", bool(seen), evidence if steps else "the stage has not run", artifact)

    learned = [line for line in steps if line.get("grad_norm", 0) > 0]
    yield row("weights learn", bool(learned), f"{len(learned)} of {len(steps)} steps with a gradient")
    varied = [line for line in steps if 0 < line["pass_rate"] < 1]
    yield row("rewards differ", bool(varied), f"{len(varied)} steps with passed and failed responses")
    if len(stage.mix) > 1:
        drawn = [domain for domain in stage.mix if any(f"{domain}/pass_rate" in line for line in steps)]
        passed = [domain for domain in drawn if any(line.get(f"{domain}/pass_rate", 0) > 0 for line in steps)]
        yield row("mixture", len(drawn) == len(stage.mix), f"drawn: {', '.join(drawn)}; passed: {', '.join(passed)}")
    kept = [recipe.curation[domain].max_difficulty for domain in stage.domains if domain in recipe.curation]
    limit = stage.max_difficulty
    if limit is not None and kept and max(kept) <= limit:
        limit = None  # curation has dropped all that the stage's limit would
    for field, rule, words in (
        (limit, "max_difficulty", "difficulty limit"),
        (stage.max_pass_rate, "max_pass_rate", "hard-prompt filter at the entrance"),
        (stage.advanced.difficulty_filter, "easy_in_epoch", "epoch filter"),
    ):
        if field is not None:
            yield row(words, rules[rule] > 0, f"{rules[rule]} prompts dropped")
    for name, value in (("temperature", stage.temperature), ("rollouts", stage.rollouts)):
        if isinstance(value, tuple):
            reached = list(dict.fromkeys(line.get(name) for line in steps))
            shown = " → ".join(f"{number:g}" for number in reached if number is not None)
            yield row(f"{name} schedule", all(any(abs(v - (r or 0)) < EXACT for r in reached) for v in value), shown)
    yield from _rewards(stage, steps, samples, row)
    for domain in stage.advanced.graded:
        yield _graded(domain, stage, recipe, evidence, row)
    yield from _loss(stage, clips(stage, recipe.training.stages), steps, row)
    for number, intervention in enumerate(stage.interventions):
        yield _intervention(number, intervention, steps, decisions, row)
    if stage.kl_coefficient and any(each.do.reset for each in stage.interventions):
        yield _carried_out(stage, steps, decisions, row)
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
    if stage.unfinished_penalty or stage.truncation == "soft_overlong":
        # Nothing else makes a reward smaller than its verdict.
        below = max([line["pass_rate"] - line["reward"] for line in steps], default=0)
        name = "unfinished penalty" if stage.unfinished_penalty else "penalty by length"
        words = f"a truncated response has reward {lowest:g}; reward below pass rate by up to {max(0, below):.3f}"
        yield row(name, lowest < 0 or below > EXACT, words)
    else:
        yield row(f"truncation: {stage.truncation}", max(shares, default=0) > 0, share)
    if stage.dynamic_sampling_rounds:
        rounds = max([line.get("sampling_rounds", 0) for line in steps], default=0)
        yield row("dynamic sampling", rounds > 1, f"up to {rounds:.0f} rounds for a batch")
    if stage.advanced.max_staleness:
        stalest = max([line.get("staleness_max", 0) for line in steps], default=0)
        yield row("sampled while the policy learns", stalest > 0, f"tokens up to {stalest:.0f} batches old")


def _graded(domain: str, stage: Stage, recipe: Recipe, evidence: Evidence, row: Any) -> Mechanism:
    """Rewards beyond the pass rate. A stage whose few wrong responses pass no test at all has none to show: then
    another stage of the recipe may."""
    credits = {
        each.name: _credit(domain, each, evidence.lines(each.name, "metrics.jsonl"))
        for each in recipe.training.stages
        if domain in each.advanced.graded
    }
    words = f"credit beyond the pass rate up to {credits[stage.name]:.3f}"
    most = max(credits, key=lambda name: credits[name])
    if credits[stage.name] <= EXACT < credits[most]:
        words = f"no credit beyond the pass rate here; up to {credits[most]:.3f} in {most}"
    return row(f"graded rewards: {domain}", credits[most] > EXACT, words)


def _credit(domain: str, stage: Stage, steps: Records) -> float:
    """The most by which a step's reward exceeds its pass rate, without what a truncated response loses."""
    name = f"{domain}/" if len(stage.domains) > 1 else ""
    return max(
        (
            line[f"{name}reward"] - line[f"{name}pass_rate"] + stage.unfinished_penalty * line[f"{name}truncated"]
            for line in steps
            if f"{name}reward" in line
        ),
        default=0.0,
    )


def _loss(stage: Stage, clipped: bool, steps: Records, row: Any) -> Iterator[Mechanism]:
    if stage.updates_per_batch > 1:
        moved = max([line.get("ratio_deviation", 0) for line in steps], default=0)
        yield row(
            f"{stage.updates_per_batch} updates a batch", moved > 0, f"ratios differ from one by up to {moved:.2g}"
        )
    if clipped:
        most = max([line["clip_fraction"] for line in steps if "clip_fraction" in line], default=0)
        yield row("ratios are clipped", most > 0, f"up to {most:.2%} of the tokens")
    if stage.kl_coefficient:
        divergences = [line["kl"] for line in steps if "kl" in line]
        words = f"from {divergences[0]:.2g} to {max(divergences):.2g} nats per token" if divergences else "not measured"
        yield row("KL to the reference", max(divergences, default=0) > 0, words)
    if stage.importance_cap is not None:
        weights = [line["importance_weight"] for line in steps if "importance_weight" in line]
        words = f"mean weight {weights[-1]:.4f}" if weights else "no weight measured"
        yield row(f"importance weights, capped at {stage.importance_cap}", bool(weights), words)


def _intervention(number: int, intervention: Intervention, steps: Records, decisions: Records, row: Any) -> Mechanism:
    do, (trigger, limit) = intervention.do, intervention.when.trigger
    words = "stop" if do.stop else "reset" if do.reset else "change"
    due = [line for line in decisions if line["rule"] == RULE and line["number"] == number]
    metric = WATCHED.get(trigger, "validation")
    values = [line[metric] for line in steps if metric in line]
    when = f"after step {due[0]['step']}" if due else "not due in the stage"
    if values and not due:
        when += f": {metric} was {min(values):.2g} to {max(values):.2g}, the limit is {limit:g}. A small model may not "
        when += f"come there: rehearse with another, --set training.stages.N.interventions.{number}.when.{trigger}=…"
    return row(f"{words} at {trigger}", bool(due), when)


def _carried_out(stage: Stage, steps: Records, decisions: Records, row: Any) -> Mechanism:
    """After a reset the policy is its own reference: judged by the stage's first, before which it has moved most."""
    resets = [number for number, each in enumerate(stage.interventions) if each.do.reset]
    first = min([line["step"] for line in decisions if line["rule"] == RULE and line["number"] in resets], default=0)
    divergences = {line["step"]: line["kl"] for line in steps if "kl" in line}
    before, after = divergences.get(first), divergences.get(first + 1)
    if before is None or after is None:
        return row("first reset carried out", False, "no step after a reset")
    words = f"KL to the reference from {before:.2g} to {after:.2g} nats per token after step {first}"
    return row("first reset carried out", after < before / 2, words)


# Evaluation


def _benchmark(benchmark: Benchmark, recipe: Recipe, evidence: Evidence) -> Iterator[Mechanism]:
    name, points = benchmark.name, recipe.evaluation.after
    scored = [evidence.scores[point][name] for point in points if name in evidence.scores.get(point, {})]
    errors = sum(one["infra_errors"] for one in scored)
    counts = [count for one in scored for count in one["problems"].values()]
    passed, graded = (sum(count[i] for count in counts) for i in (0, 1))
    last = evidence.find("evaluation", points[-1]) if points else None
    whole = len(scored) == len(points) and not errors
    words = f"{len(scored)} of {len(points)} checkpoints; {passed} of {graded} responses passed"
    yield Mechanism(f"benchmark {name} read and scored", whole and 0 < passed < graded, words, last)


def _end(recipe: Recipe, evidence: Evidence) -> Iterator[Mechanism]:
    if recipe.evaluation.after:
        ks = {int(k) for one in evidence.scores.values() for scores in one.values() for k in scores["pass_at"]}
        wanted = {k for each in recipe.evaluation.benchmarks for k in each.pass_at or recipe.evaluation.pass_at}
        yield Mechanism("pass@k", wanted <= ks, f"k = {', '.join(map(str, sorted(ks))) or 'none'}")
        report = evidence.find("report", recipe.name)
        text = (report.path / "report.html").read_text() if report else ""
        absent = [each.name for each in recipe.evaluation.benchmarks if each.name not in text]
        words = f"without {', '.join(absent)}" if absent else f"all {len(recipe.evaluation.benchmarks)} benchmarks"
        yield Mechanism("report", bool(text) and not absent, words, report)
    if recipe.training.stages:
        registered = [event["name"] for event in evidence.events if event["event"] == "register"]
        yield Mechanism("registration", bool(registered), f"a version of {registered[-1]}" if registered else "none")
    for gate in recipe.approve:
        decided = [approval for approval in evidence.approvals.all() if approval.gate == gate and approval.approved]
        yield Mechanism(f"approval of {gate}", bool(decided), str(decided[0]) if decided else "not requested")
    if recipe.gate:
        verdict = evidence.find("gate", recipe.name)
        yield Mechanism(
            "gate for the alias best", verdict is not None, verdict.summary if verdict else "no verdict", verdict
        )
