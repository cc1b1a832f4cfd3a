"""`ratchet rollouts`: browse a stage's samples, verdicts and rewards."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ratchet.cli.options import Home, artifact
from ratchet.cli.terminal import clean, console, hint, output, print_json, print_rows, say
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.training.rollout_log import RolloutFilter

Step = Annotated[str, typer.Option("--step", metavar="FROM:TO", help="Steps: `40`, `40:60`, `:10`, `100:`.")]
Domain = Annotated[str, typer.Option("--domain", help="A domain, such as `math`.")]
Problem = Annotated[str, typer.Option("--problem", help="The beginning of a `problem_id`.")]
OutcomeIs = Annotated[
    str,
    typer.Option(
        "--outcome",
        help="`passed`, `failed`, `unparseable`, `timeout`, `infra_error`; or `truncated`, whatever the verdict.",
    ),
]
DecidedBy = Annotated[str, typer.Option("--decided-by", help="What decided the verdict, such as `wrong_answer`.")]
Reward = Annotated[str, typer.Option("--reward", metavar="FROM:TO", help="Rewards.")]
Tokens = Annotated[str, typer.Option("--tokens", metavar="FROM:TO", help="Response tokens.")]
Words = Annotated[str, typer.Option("--text", help="Text that the prompt or the response contains, in any case.")]


def rollouts(
    what: Annotated[str, artifact("A stage (name or key of its checkpoint), a run, or a stage's directory.")],
    step: Step = "",
    domain: Domain = "",
    problem: Problem = "",
    outcome: OutcomeIs = "",
    decided_by: DecidedBy = "",
    reward: Reward = "",
    tokens: Tokens = "",
    text: Words = "",
    limit: Annotated[int, typer.Option("--limit", min=0, max=100_000, help="Rollouts to list.")] = 10,
    full: Annotated[bool, typer.Option("--full", help="Show each listed prompt and response in full.")] = False,
    home: Home = None,
) -> None:
    """Browse the rollouts that stages kept: counts by verdict, then single responses.

    A stage that is still training is read by its directory: the unfinished one in `artifacts/.drafts`, or the `work`
    of `train_stage`.

    Example, after `ratchet run tiny`: `ratchet rollouts checkpoint/math-60 --step 40:60 --outcome failed --full`
    """
    from ratchet.training.rollout_log import FACTS, READ, read_rollouts, rollout_files

    wanted = filter_of(step, domain, problem, outcome, decided_by, reward, tokens, text)
    counts, sums = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    listed: list[dict[str, Any]] = []
    for name, work in _directories(what, home):
        chosen: list[dict[str, Any]] = []
        for row in read_rollouts(work, wanted, READ if text else FACTS):
            kind = row["domain"], row["outcome"], row["decided_by"]
            counts[kind] += 1
            sums[kind] += row["tokens"]
            if len(listed) + len(chosen) < limit:
                chosen.append(row)
        listed += [{"stage": name, **row} for row in _with_texts(work, chosen, wanted)]
        files = rollout_files(work)
        steps = f"steps {files[0][0]} to {files[-1][0]}" if files else "no steps"
        if not output.json:
            say(f"{name}: {steps} in {work / 'rollouts'}")
    by_verdict = [
        {"domain": kind[0], "outcome": kind[1], "decided by": kind[2] or "–", "rollouts": count,
         "mean tokens": round(sums[kind] / count)}
        for kind, count in sorted(counts.items())
    ]  # fmt: skip
    if output.json:
        print_json({"rollouts": counts.total(), "by_verdict": by_verdict, "listed": listed})
        return
    print_rows(by_verdict)
    if full:
        for row in listed:
            _show_whole(row)
    else:
        print_rows(_in_a_line(row) for row in listed)
    if counts.total() > len(listed):
        hint(
            f"{counts.total():,} match, {len(listed)} are listed: --limit, --step and the other options choose others."
        )


def _with_texts(work: Path, rows: list[dict[str, Any]], wanted: "RolloutFilter") -> Iterator[dict[str, Any]]:
    """The same rows with their texts: the first of each step that match. Nothing in a row identifies it."""
    from ratchet.training.rollout_log import read_rollouts

    for step, count in Counter(row["step"] for row in rows).items():
        yield from islice(read_rollouts(work, replace(wanted, steps=(step, step))), count)


def filter_of(
    step: str = "", domain: str = "", problem: str = "", outcome: str = "", decided_by: str = "", reward: str = "",
    tokens: str = "", text: str = "",
) -> "RolloutFilter":  # fmt: skip
    """Make a filter from the options of a command. Raises RatchetError for an invalid range or outcome."""
    from ratchet.training.rollout_log import OUTCOMES, RolloutFilter

    if outcome and outcome not in OUTCOMES:
        raise RatchetError(f"--outcome {outcome!r}: give one of {', '.join(OUTCOMES)}.")
    most = 2**62
    return RolloutFilter(
        steps=_range("--step", step, most), domain=domain, problem=problem, outcome=outcome, decided_by=decided_by,
        rewards=_range("--reward", reward, float("inf")), lengths=_range("--tokens", tokens, most), text=text,
    )  # fmt: skip


def _range(option: str, text: str, most: Any) -> Any:
    """(low, high) of `40`, `40:60`, `:10` or `100:`; None for ""."""
    if not text:
        return None
    low, colon, high = text.partition(":")
    number = type(most)
    try:
        first = number(low) if low.strip() else -most
        return first, (number(high) if high.strip() else most) if colon else first
    except ValueError:
        raise RatchetError(f"{option} {text!r}: give a number or a range, such as 40:60, :10 or 100:") from None


def _directories(what: str, home: Path | None) -> list[tuple[str, Path]]:
    from ratchet.tasks.rollouts import stage_directory, stages_of

    if directory := stage_directory(what):
        return [(directory.name, directory)]
    return [(stage.name, stage.path) for stage in stages_of(load_settings(home), what)]


def _in_a_line(row: dict[str, Any]) -> dict[str, Any]:
    end = " ".join(row["response"].split())
    return {
        "step": row["step"], "problem": row["problem_id"], "sample": row["sample"],
        "outcome": "truncated" if row["truncated"] else row["outcome"], "decided by": row["decided_by"] or "–",
        "reward": f"{row['reward']:.2f}", "advantage": f"{row['advantage']:+.2f}", "tokens": row["tokens"],
        "ends with": clean(f"…{end[-40:]}" if len(end) > 40 else end).plain,
    }  # fmt: skip


def _show_whole(row: dict[str, Any]) -> None:
    facts = _in_a_line(row)
    facts.pop("ends with")
    console.print(Text("\n" + "  ".join(f"{name} {value}" for name, value in facts.items()), style="bold"))
    if row["detail"]:
        console.print(clean(row["detail"]), soft_wrap=True)
    for name in ("prompt", "response"):
        console.print(Text(name, style="dim"))
        console.print(clean(row[name]), soft_wrap=True)
