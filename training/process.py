"""Do one rank's work from the specification to the finished model: assemble the parts and run them."""

import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import transformers

from ratchet.data_curation.base import journal
from ratchet.data_curation.base.files import replace_directory, write_atomically
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.base.protocol import Sampling
from ratchet.infra.launching.group import STATUS
from ratchet.infra.recipe.evaluation import Benchmark
from ratchet.infra.recipe.questions import distinct_questions
from ratchet.infra.recipe.training import Stage
from ratchet.training import loop, new_model, ranks, warm_start
from ratchet.training.adapter import Adapter
from ratchet.training.alarms import Alarms
from ratchet.training.asynchronous import AsyncSampler
from ratchet.training.checkpoint import Checkpoints, Stopped, writing
from ratchet.training.checkpoint_files import CHECKPOINTS
from ratchet.training.curriculum import Curriculum
from ratchet.training.interventions import BEST
from ratchet.training.learner import Learner
from ratchet.training.on_policy import OnPolicySampler
from ratchet.training.pass_rates import rounds, settled
from ratchet.training.policy import Policy
from ratchet.training.rollout import RolloutWorker, pass_rate, require_verdicts
from ratchet.training.rollout_source import RolloutSource
from ratchet.training.sampler import open_sampler
from ratchet.training.specification import TrainingSpec
from ratchet.training.step_logs import StageLogs, StepLog
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.processes import core_count
from ratchet.verifiers.reward import is_graded
from ratchet.verifiers.serving.local_pool import open_pool

PASS_RATES = "pass_rates.jsonl"
NONE_BETTER = "no validation was better than the stage's start{above}, so its result (`result: best`) is its start"


def run(spec: TrainingSpec) -> tuple[str, str, int]:
    """Run a warm start, a stage or a measurement. Returns its end ("finished", or "stopped" on request), a warning or
    "", and the number of steps. Raises RatchetError."""
    # Progress bars and banners of libraries would hide our own messages.
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    work, timeout = spec.work_dir, spec.training.hardware.advanced.timeout_minutes
    with ranks.in_touch(timeout):
        ranks.join(timeout)
        if ranks.rank() == 0:
            work.mkdir(parents=True, exist_ok=True)
            (work / STATUS).unlink(missing_ok=True)
        ranks.barrier()
        try:
            ended = "finished", *_run(spec)
        except Stopped as stopped:
            ended = "stopped", "", stopped.steps
        ranks.leave()
        return ended


def _run(spec: TrainingSpec) -> tuple[str, int]:
    work = spec.work_dir
    if spec.kind == "preflight":
        from ratchet.training import preflight

        return "", preflight.run(spec)
    if spec.kind == "pass_rates":
        return "", _measure_pass_rates(spec)
    policy, warning, steps = (_warm_start if spec.kind == "warm_start" else _stage)(spec)
    with writing(work):
        policy.save_model(draft := work / ".model")
        if ranks.rank() == 0:
            replace_directory(draft, work / "model")
    return warning, steps


def _warm_start(spec: TrainingSpec) -> tuple[Policy, str, int]:
    seed, model, work, settings = spec.seed, spec.model, spec.work_dir, spec.training.warm_start
    if settings is None:
        assert model.path is not None, "checked when the run was planned"
        return _policy(spec, model.path), "", 0
    assert spec.traces is not None, "written by the step of a warm start"
    traces = warm_start.read_traces(spec.traces)
    path = model.path
    if path is None:
        texts = warm_start.tokenizer_texts(traces, seed)
        path = str(new_model.create_once(model.from_config, texts, seed, work / "new_model"))
    policy = _policy(spec, path, weight_decay=settings.weight_decay)
    budget = spec.training.hardware.micro_batch_tokens
    samples, too_long = warm_start.encode(
        traces, policy.tokenizer, model.prompt, policy.positions, settings.max_tokens, budget
    )
    checkpoints = Checkpoints(work / CHECKPOINTS, policy)
    done, state = checkpoints.restore() or (0, {})
    metrics = StepLog(work / "metrics.jsonl", done, policy.rank)
    StepLog(work / "decisions.jsonl", -1, policy.rank).take(too_long)
    return policy, "", warm_start.train(settings, seed, samples, policy, checkpoints, metrics, done, state)


def _policy(spec: TrainingSpec, path: str, reference: str | None = None, **changes: float) -> Policy:
    """The model in `path`, to be trained by the settings of `spec`, with `changes` of its optimizer. `reference` is the
    model of a KL term."""
    hardware, details = spec.training.hardware, spec.training.advanced
    optimizer = details.optimizer.model_copy(update=changes)
    return Policy(path, hardware, optimizer, reference, Adapter.of(details.lora, spec.model.path, spec.seed))


def _stage(spec: TrainingSpec) -> tuple[Policy, str, int]:
    seed, training, stage, work = spec.seed, spec.training, spec.stage, spec.work_dir
    asked = {benchmark.name: benchmark for benchmark in spec.evaluation.benchmarks}
    validation = {name: _questions(asked[name], own) for name, own in _problems(spec.validation).items()}
    if stage.validates and not (validation and all(validation.values())):
        raise RatchetError(
            f"stage {stage.name} depends on its validation score, but there are no held-out problems to validate on: "
            f"add a benchmark of {' or '.join(stage.domains)}, or name some in the stage's validation."
        )
    policy = _policy(
        spec, spec.start_model, (spec.reference_model or spec.start_model) if stage.kl_coefficient else None
    )
    checkpoints = Checkpoints(work / CHECKPOINTS, policy, spec.training.keep_checkpoints)
    stale = stage.advanced.max_staleness > 0
    beside = stale and training.engine.supports_async_sampling
    with _worker(spec, policy, beside) as worker:
        curriculum = _curriculum(spec, worker, policy)
        validators = {name: worker.asking(asked[name]) for name in validation}
        for name, problems in validation.items():
            fits = _fits(spec, validators[name], policy)
            validators[name].prompts(problems)
            validation[name] = curriculum.held_out(name, problems, fits)
        learner, alarms = Learner(policy, stage), Alarms()
        source: RolloutSource
        most_errors = training.advanced.max_infra_errors
        if stale:
            source = AsyncSampler(stage, seed, curriculum, worker, training.engine, most_errors)
        else:
            source = OnPolicySampler(stage, seed, curriculum, worker, learner, most_errors)
        restored = checkpoints.restore()
        if restored:
            for name, part in loop.stateful(curriculum, learner, source, alarms).items():
                part.load_state_dict(restored[1][name])
        else:
            rates = None
            if spec.pass_rates:
                lines = (line for _, line in journal.read_lines(spec.pass_rates))
                rates = {i: pass_rate(*count) for line in lines for i, count in line["counts"].items()}
            curriculum.start(rates)
        done = restored[0] if restored else -1
        journals = StageLogs(work, done, policy.rank, training.keep_rollouts, training.advanced.keep_logprobs)
        checks = loop.Validation(seed, validators, validation, spec.evaluation, most_errors)
        loop.train(training, curriculum, source, learner, checks, alarms, checkpoints, journals, policy.tokenizer)
    steps, best = curriculum.state.step, checkpoints.restore_best() if stage.advanced.result == "best" else None
    if best and policy.rank == 0:
        line = {"step": steps, "rule": BEST, "evidence": {"step": best[0], "validation": best[1]}}
        if all(line != known for _, known in journal.read_lines(work / "decisions.jsonl")):  # killed since then
            journals.decisions.write(line)
            journals.decisions.sync()
    above = " and above all floors of `keep`" if stage.keep else ""
    return policy, NONE_BETTER.format(above=above) if best and best[0] == 0 else "", steps


def _measure_pass_rates(spec: TrainingSpec) -> int:
    """Measure how often the model solves each problem that the stage may train on, as `pass_rates.jsonl`. Each rank
    journals its results, from which a killed run continues."""
    stage, work, policy = spec.stage, spec.work_dir, _policy(spec, spec.start_model)
    first = stage.temperature[0] if isinstance(stage.temperature, tuple) else stage.temperature
    sampling = Sampling(temperature=first, max_tokens=stage.max_response_tokens)
    seed_parts = (spec.seed, stage.name, "before")
    with _worker(spec, policy) as worker:
        curriculum = _curriculum(spec, worker, policy)
        candidates = curriculum.candidates()
        counts = _pass_counts(stage, curriculum, worker, sampling, seed_parts, work / CHECKPOINTS,
                              spec.training.advanced.max_infra_errors)  # fmt: skip
    if policy.rank == 0:
        lines = (
            json.dumps({"counts": {i: [passed, judged]}, "responses": responses}) + "\n"
            for i, (passed, judged, responses) in ((p.problem_id, counts[p.problem_id]) for p in candidates)
        )
        write_atomically(work / PASS_RATES, "".join(lines))
    return len(candidates)


def _pass_counts(
    stage: Stage, curriculum: Curriculum, worker: RolloutWorker, sampling: Sampling, seed_parts: tuple[object, ...],
    journals: Path, most_errors: float,
) -> dict[str, tuple[int, int, int]]:  # fmt: skip
    """Passed, judged and sampled responses of each candidate, sampled in rounds until its decision is settled.
    Collective. Continues from the `journals` of a killed run. Raises RatchetError if too large a share of the verdicts,
    `most_errors`, were infrastructure errors."""
    candidates, responses = curriculum.candidates(), stage.advanced.pass_rate_rollouts
    expected = curriculum.expected_tokens(candidates)
    assert stage.max_pass_rate is not None, "the measurement is for this limit"
    limit, error = stage.max_pass_rate, stage.advanced.pass_rate_error

    def done(count: tuple[int, int, int]) -> bool:
        return count[2] >= responses or (count[2] > 0 and settled(*count[:2], responses - count[2], limit, error))

    ends = rounds(responses)

    def rounds_of(count: tuple[int, int, int]) -> int:
        """Rounds of a prompt that are done; all of them once it is settled, as none is after the first."""
        return len(ends) if done(count) else sum(until <= count[2] for until in ends)

    counts = dict.fromkeys((p.problem_id for p in candidates), (0, 0, 0))
    for file in journals.glob(f"*-{PASS_RATES}") if ranks.rank() == 0 else ():
        for _, line in journal.read_lines(file):
            counts |= {i: tuple(count) for i, count in line["counts"].items() if count[2] > counts[i][2]}
    counts = ranks.broadcast(counts)
    before, whole_work = sum(map(rounds_of, counts.values())), len(candidates) * len(ends)
    with journal.Journal(journals / f"{ranks.rank()}-{PASS_RATES}") as lines:
        sampled = 0
        for until in ends:
            left = [p for p in candidates if counts[p.problem_id][2] < until and not done(counts[p.problem_id])]
            if left:  # the same on every rank; a killed run may have sampled this round
                mine: dict[str, tuple[int, int, int]] = {}
                for i, (passed, judged) in worker.pass_counts(
                    left, until - sampled, sampling, seed_parts, expected, first=sampled
                ):
                    mine[i] = count = (counts[i][0] + passed, counts[i][1] + judged, until)
                    step = before + ranks.tally("pass rates", rounds_of(count) - rounds_of(counts[i]))
                    whole = count[1] == until  # verdicts that are missing are asked for again
                    lines.append({"step": step, "steps": whole_work, "counts": {i: count} if whole else {}})
                counts |= dict(chain.from_iterable(part.items() for part in ranks.gather(mine)))
                require_verdicts(counts.values(), most_errors, "the measurement of pass rates")
            sampled = until
    return counts


def _judges(cores: int, ranks: int) -> int:
    """Workers of a rank's pool: twice its share of the cores, for when other ranks have nothing to judge. Each holds a
    sandbox and its domains' libraries, which are not worth it where ranks have no more than a core each."""
    return min(cores, 2 * cores // ranks) if cores > ranks else 1


@contextmanager
def _worker(spec: TrainingSpec, policy: Policy, beside: bool = False) -> Iterator[RolloutWorker]:
    training, stage = spec.training, spec.stage
    graded = any(is_graded(domain, stage.advanced.graded) for domain in stage.domains)
    with (
        open_sampler(policy, training, spec.start_model, spec.work_dir, beside) as sampler,
        ranks.machine_slots(core_count()) as slots,
        open_pool(
            training.reward_servers,
            _judges(core_count(), training.hardware.processes),
            settings=spec.verification.settings(fraction=graded, total_s=stage.advanced.total_time_limit_s),
            slots=slots,
        ) as pool,
    ):
        yield RolloutWorker(policy, sampler, pool, spec.model.prompt, training.hardware.rollout_batch)


def _curriculum(spec: TrainingSpec, worker: RolloutWorker, policy: Policy) -> Curriculum:
    problems = _problems(spec.problems)
    worker.prompts([problem for each in problems.values() for problem in each])  # all at once, a third of the cost
    return Curriculum(spec.stage, spec.seed, problems, _fits(spec, worker, policy))


def _fits(spec: TrainingSpec, worker: RolloutWorker, policy: Policy) -> Callable[[Problem], bool]:
    """A function that tells whether a problem's prompt leaves room for the stage's longest response."""
    longest = min(policy.positions or math.inf, worker.sampler.positions or math.inf) - spec.stage.longest_response
    return lambda problem: len(worker.prompts([problem])[0]) <= longest


def _questions(benchmark: Benchmark, problems: Sequence[Problem]) -> list[Problem]:
    """The problems that the benchmark's evaluation asks too."""
    distinct = distinct_questions(problems)
    return [distinct[problem_id] for problem_id in benchmark.select(distinct)]


def _problems(files: Mapping[str, Path]) -> dict[str, list[Problem]]:
    # Not `read_table`, which imports pyarrow's data sets and pandas.
    return {domain: from_table(pq.ParquetFile(path).read()) for domain, path in files.items()}
