"""`ratchet verify`: judge one response and explain the verdict, or judge a file of them, with the pool that training
uses."""

import json
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress, TextColumn
from rich.text import Text

from ratchet.cli.options import Home, artifact
from ratchet.cli.options import recipe as recipe_named
from ratchet.cli.rollouts import Step, filter_of
from ratchet.cli.terminal import clean, columns, console, print_json, print_rows, say
from ratchet.cli.terminal import output as options
from ratchet.cli.verify_rollouts import verify_rollouts
from ratchet.infra.settings import load_settings
from ratchet.verifiers.errors import RatchetError

if TYPE_CHECKING:
    from ratchet.verifiers.outcome import Verdict
    from ratchet.verifiers.problem import Problem
    from ratchet.verifiers.serving.pool import Pool
    from ratchet.verifiers.submission import JudgeSettings, Submission

AHEAD = 1024
"""Most rows begun and not yet written: enough to keep all workers busy while one row takes long."""
ANSWERS = ("response", "pred", "code")
"""Columns of which each row has exactly one."""
JUDGED = ("outcome", "fraction", "decided_by", "detail", "extracted", "error")
"""Columns of the output, of which those of an earlier one are dropped."""
Row = dict[str, Any]


def verify(
    domain: Annotated[
        str, typer.Argument(help="The domain of the problems: `math`, `code`, …, or your own, as `module:Class`.")
    ] = "",
    input_: Annotated[Path | None, typer.Option("--input", help="Rows to judge: JSONL, JSON or Parquet.")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Where to write the judged rows: JSONL.")] = None,
    problems: Annotated[
        str | None,
        artifact("Curated problems, an artifact or a file; rows name their `problem_id`.", "--problems"),
    ] = None,
    problem: Annotated[str | None, typer.Option("--problem", help="For one response: its `problem_id`.")] = None,
    gold: Annotated[str | None, typer.Option("--gold", help="For one response: the reference answer.")] = None,
    question: Annotated[
        str | None, typer.Option("--question", help="The question, which may ask for a percentage.")
    ] = None,
    response: Annotated[str | None, typer.Option("--response", help="A whole response.")] = None,
    pred: Annotated[str | None, typer.Option("--pred", help="A bare answer, instead of a response.")] = None,
    solution: Annotated[
        Path | None, typer.Option("--solution", help="A file with the response; `.py`: a bare program.")
    ] = None,
    recipe: Annotated[str, recipe_named("The recipe with your own domain, or with your columns.", "--recipe")] = "",
    either: Annotated[
        bool, typer.Option("--either", help="Math: also accept what math-verify accepts (`verification.math: either`).")
    ] = False,
    boxed: Annotated[
        bool, typer.Option("--boxed", help="Math: count only a boxed answer, as rewards do (with --recipe always so).")
    ] = False,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=4096, help="Processes that judge (default: one per core).")
    ] = None,
    rollouts: Annotated[
        str | None,
        artifact(
            "A stage, a run, or a stage's directory: judge its rollouts again and list wrong rewards.", "--rollouts"
        ),
    ] = None,
    step: Step = "",
    home: Home = None,
) -> None:
    """Judge responses, and explain the verdict.

    A math response without a box is judged by the answer that it states last ("So x = 4."), which earns no reward in
    training: with --boxed or --recipe only a box counts.

    In a file each row has a `response` (or `pred`, a bare answer; or `code`, a program), and either the `problem_id` of
    one of `--problems` or the problem's own fields: `gold` or `answer`, `question` or `prompt`, `tests`, or the columns
    that the recipe's curation maps to them; a domain that requires `metadata` finds the other columns there. The output
    has all rows in order, with `outcome`, `fraction`, `decided_by`, `detail` and `extracted`; a row that cannot be
    judged has the outcome null, and `error`.

    The exit code is 0 when the response passes; for a file, when every row could be judged.

    With `--rollouts`, kept rollouts are judged again by the current verifier; those whose reward would now differ are
    counted and listed, and `--output` gets all of them.

    Example: `ratchet verify math --gold '1/2' --response 'So \\boxed{0.5}'`

    Example, with your files: `ratchet verify code --problems kept.parquet --input answers.jsonl --output judged.jsonl`

    Example, after `ratchet run tiny`: `ratchet verify --rollouts checkpoint/math-60 --step 40:60`
    """
    from ratchet.infra.recipe import load_recipe
    from ratchet.infra.recipe.domains import use_domains
    from ratchet.verifiers.domains import declare_domains, domain_of, load_domain
    from ratchet.verifiers.registry import add_to_import_path
    from ratchet.verifiers.submission import JudgeSettings

    settings, columns = JudgeSettings(fraction=True, stated=not boxed), {}
    if recipe:
        chosen = load_recipe(recipe)
        use_domains(chosen)  # math-verify too, if it takes either
        settings = chosen.verification.settings(fraction=True)
        columns = {name: each.columns for name, each in chosen.curation.items()}
    if output and not output.parent.is_dir():
        raise RatchetError(f"There is no directory {output.parent} to write {output.name} in. Make it first.")
    if rollouts:
        ignored = {
            "--input": input_, "--problems": problems, "--problem": problem, "--gold": gold, "--question": question,
            "--response": response, "--pred": pred, "--solution": solution, "--either": either, "--boxed": boxed,
        }  # fmt: skip
        if given := [name for name, value in ignored.items() if value]:
            raise RatchetError(f"--rollouts judges as its stage did: leave out {', '.join(given)}.")
        verify_rollouts(load_settings(home), rollouts, filter_of(step, domain), output, workers)
        return
    if not domain:
        raise RatchetError("Which domain? `ratchet verify math …`; or --rollouts STAGE for the rollouts of a run.")
    settings = replace(settings, either=either or settings.either)
    if ":" in domain:
        add_to_import_path(Path.cwd())
        declare_domains([domain], {})
        domain = load_domain(domain).name
    domain_of(domain)  # or an error that lists the known ones
    texts = {"response": response, "pred": pred, **_read_solution(solution)}
    row = {name: text for name, text in texts.items() if text is not None}
    mapped = partial(_mapped, columns.get(domain, {}))
    by_id = _read_problems(domain, _problem_file(problems, home), mapped) if problems else None
    submission = partial(_submission, domain, problems=by_id, settings=settings)
    if input_ and output and not (row or gold or problem):
        good = _verify_file(lambda row: submission(mapped(row)), input_, output, workers, settings)
    elif len(row) == 1 and (by_id or gold is not None) and not (input_ or output):
        if by_id and problem is None and len(by_id) == 1:
            [problem] = by_id
        row |= {"gold": gold, "question": question, "problem_id": problem}
        good = _explain(submission(row), settings)
    else:
        raise RatchetError(
            "To judge a file: --input FILE --output FILE. To judge one response: --gold TEXT, or --problems FILE "
            "--problem ID, with one of --response TEXT, --pred TEXT and --solution FILE."
        )
    if not good:
        raise typer.Exit(1)


def _read_solution(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return {"code" if path.suffix == ".py" else "response": path.read_text(encoding="utf-8")}
    except (OSError, UnicodeDecodeError) as error:
        raise RatchetError(f"{path}: cannot be read ({error}). Give a text file in UTF-8.") from None


def _problem_file(problems: str, home: Path | None) -> Path:
    """The file of that path, or the kept rows of an artifact."""
    from ratchet.infra.store.artifacts import ArtifactStore, matches

    store = ArtifactStore(load_settings(home).artifacts)
    if not (path := Path(problems)).exists() and matches(problems, list(store.all())):
        return store.open(problems).kept
    return path


def _mapped(columns: Mapping[str, str], row: Row | Exception) -> Row | Exception:
    """The row with the fields for which the recipe names a column."""
    if isinstance(row, Exception):
        return row
    return row | {field.removeprefix("metadata."): row[column] for field, column in columns.items() if column in row}


def _read_problems(
    domain: str, path: Path, mapped: Callable[[Row | Exception], Row | Exception]
) -> "dict[str, Problem]":
    """Problems by problem_id. Raises RatchetError for a row that is not a problem of the domain, or a repeated one."""
    from ratchet.data_curation.readers.raw_files import read_rows

    problems: dict[str, Problem] = {}
    for number, row in enumerate(read_rows(path)):
        try:
            problem = _problem(domain, mapped(row))
            if problem.problem_id in problems:
                raise RatchetError(f"problem_id {problem.problem_id!r} is there already, further up")
        except RatchetError as error:
            raise RatchetError(f"{path}, row {number}: {error}. Correct the row or take it out.") from None
        problems[problem.problem_id] = problem
    if not problems:
        raise RatchetError(f"{path}: the file has no problems.")
    return problems


def _problem(domain: str, row: Row | Exception) -> "Problem":
    """The problem of a row. Raises RatchetError with the field and the reason."""
    from ratchet.verifiers.domains import domain_of, known_domains
    from ratchet.verifiers.problem import Problem

    if isinstance(row, Exception):
        raise RatchetError(str(row))
    row_fields = {"prompt": row.get("question"), "answer": row.get("gold"), "domain": domain} | row
    if "metadata" in domain_of(domain).requires:
        row_fields.setdefault("metadata", {name: value for name, value in row.items() if name not in ANSWERS})
    values = {field.name: row_fields[field.name] for field in fields(Problem) if row_fields.get(field.name) is not None}
    if values["domain"] != domain and values["domain"] in known_domains():
        raise RatchetError(f"domain: {values['domain']!r} instead of {domain!r}")
    values["domain"] = domain  # instead of a data set's own, such as "algebra"
    for name in ("tests", "metadata"):  # JSON text in the schema; written by hand, often the structure itself
        if isinstance(values.get(name), list | dict):
            values[name] = json.dumps(values[name], default=str)
    if type(values.get("problem_id")) is int:
        values["problem_id"] = str(values["problem_id"])
    answer = values.get("answer")
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        if not math.isfinite(answer):
            raise RatchetError(f"gold: {answer} is no reference; leave the row out")
        values["answer"] = str(answer)
    for name in ("problem_id", "prompt", "answer", "tests"):
        if not isinstance(values.setdefault(name, "" if name == "prompt" else None), str | None):
            raise RatchetError(f"{name}: {type(values[name]).__name__} instead of text")
    if not values["problem_id"]:
        raise RatchetError("problem_id: missing")
    return Problem(**values)


def _submission(
    domain: str, row: Row | Exception, *, problems: "dict[str, Problem] | None", settings: "JudgeSettings"
) -> "Submission":
    """The submission of a row. Raises RatchetError with the field and the reason."""
    from ratchet.verifiers.submission import Submission

    if isinstance(row, Exception):
        raise RatchetError(str(row))
    if problems is None:
        problem = _problem(domain, {"problem_id": "given"} | {k: v for k, v in row.items() if v is not None})
    elif (problem := problems.get(str(row.get("problem_id")))) is None:
        raise RatchetError(f"problem_id: {row.get('problem_id')!r} is not among the problems")
    texts = {name: row[name] for name in ANSWERS if row.get(name) is not None}
    if len(texts) != 1:
        raise RatchetError(f"exactly one of the fields {', '.join(ANSWERS)} is needed")
    [(name, text)] = texts.items()
    if name == "pred" and type(text) in (int, float):
        text = str(text)  # also NaN, which is wrong
    if not isinstance(text, str):
        raise RatchetError(f"{name}: {type(text).__name__} instead of text")
    return Submission(problem, text, is_program=name != "response", settings=settings)


def _fault(verdict: "Verdict") -> str:
    """The fault of the problem or of this machine for which a verdict does not count; "" if it counts."""
    at_fault = verdict.outcome.value == "infra_error" or verdict.decided_by in ("invalid_problem", "reference")
    return verdict.detail if at_fault else ""


def _verify_file(
    submission: "Callable[[Row | Exception], Submission]", source: Path, target: Path, workers: int | None,
    settings: "JudgeSettings",
) -> bool:  # fmt: skip
    """Judge the rows of a file; True if each could be judged. `submission` makes that of a row, or raises
    RatchetError."""
    from ratchet.data_curation.base.files import disk_errors, replacing
    from ratchet.data_curation.split import finite
    from ratchet.verifiers.serving.local_pool import open_pool

    begin, counts, faults = time.monotonic(), Counter[tuple[str, str]](), []
    shown = TextColumn("judging {task.description}"), TextColumn("{task.completed:,.0f} rows")
    progress = Progress(*shown, console=console, transient=True, disable=options.quiet or not console.is_terminal)
    task = progress.add_task(source.name, total=None)
    with (
        disk_errors(target.parent),
        replacing(target) as draft,
        open_pool(workers=workers, settings=settings) as pool,
        progress,
        draft.open("w", encoding="utf-8") as file,
    ):
        for row, judged in _judged(pool, submission, source):
            kept = {name: value for name, value in row.items() if name not in JUDGED}
            file.write(json.dumps(finite(kept | judged), default=str, allow_nan=False) + "\n")
            counts[judged["outcome"] or "not judged", judged.get("decided_by", "")] += 1
            faults += [judged["error"]] if "error" in judged else []
            progress.advance(task)
    rows = [{"outcome": outcome, "decided by": by, "rows": n} for (outcome, by), n in sorted(counts.items())]
    if options.json:
        print_json({"output": str(target), "rows": counts.total(), "verdicts": rows, "could_not_be_judged": faults})
        return not faults
    print_rows(rows)
    seconds = time.monotonic() - begin
    rate = f"{counts.total() / seconds:,.0f} a second"
    say(f"{counts.total():,} rows in {seconds:.1f} s, {rate} → {target}")
    for fault in faults[:5]:
        console.print(clean(f"could not be judged: {fault}"), soft_wrap=True)
    if len(faults) > 5:
        console.print(f"… and {len(faults) - 5:,} more: see `error` in their rows.")
    return not faults


def _judged(
    pool: "Pool", submission: "Callable[[Row | Exception], Submission]", source: Path
) -> Iterator[tuple[Row, Row]]:
    """Each row of the file in order, and its verdict."""
    from ratchet.data_curation.readers.raw_files import read_rows

    waiting: deque[tuple[str, Row, Future[Any]]] = deque()

    def finished() -> tuple[Row, Row]:
        where, row, judged = waiting.popleft()
        verdict = judged.result()
        if isinstance(verdict, BaseException):
            raise verdict
        if isinstance(verdict, str):
            return row, {"outcome": None, "error": f"{where}: {verdict}"}
        fault = {"error": f"{where}: {why}"} if (why := _fault(verdict)) else {}
        judged = {"outcome": None, "fraction": None} if fault else {"outcome": verdict.outcome.value}
        return row, asdict(verdict) | judged | fault

    for number, row in enumerate(read_rows(source)):
        judged: Future[Any] = Future()
        try:
            pool.begin(submission(row), judged.set_result)
        except RatchetError as error:
            judged.set_result(str(error))
        waiting.append((f"{source}, row {number}", {} if isinstance(row, Exception) else row, judged))
        while waiting and (len(waiting) > AHEAD or waiting[0][2].done()):
            yield finished()
    while waiting:
        yield finished()


def _explain(submission: "Submission", settings: "JudgeSettings") -> bool:
    from ratchet.verifiers.domains import domain_of
    from ratchet.verifiers.serving.local_pool import open_pool
    from ratchet.verifiers.serving.pool import gather

    with open_pool(workers=1, settings=settings) as pool:
        [verdict] = gather(pool.begin, [submission])
        facts = {"outcome": verdict.outcome.value, "decided by": verdict.decided_by, "why": verdict.detail}
        if options.json:
            print_json({**facts, "extracted": verdict.extracted, "passed": verdict.passed})
            return verdict.passed
        if verdict.extracted and "\n" not in verdict.extracted:
            facts["extracted"] = verdict.extracted
        for name, value in facts.items():
            if value:
                console.print(f"{name:12}", clean(value), soft_wrap=True)
        if domain_of(submission.problem.domain).runs_programs and verdict.extracted and not _fault(verdict):
            _explain_tests(pool, submission.problem, verdict.extracted)
    return verdict.passed


def _explain_tests(pool: Any, problem: "Problem", program: str) -> None:
    """One program's result on each test, and the first failed test in full."""
    from ratchet.verifiers.code.domain import language_of_program
    from ratchet.verifiers.code.judge import examine
    from ratchet.verifiers.code.problem import read_problem

    examined = partial(examine, settings=pool.settings, language=language_of_program(problem, program))
    [(_, results)] = pool.map_programs(examined, [(problem, program)])
    table = columns("test", "status", "seconds", "first difference")
    for r in results:
        style = "green" if r.status == "passed" else "red"
        table.add_row(str(r.index), Text(r.status, style=style), f"{r.seconds:.4f}", clean(r.difference))
    console.print(table)
    failed = [result for result in results if result.status != "passed"]
    console.print(f"{len(results) - len(failed)} of {len(results)} tests passed")
    for first in failed[:1]:
        test = read_problem(problem).tests[first.index]  # of a check each assertion is one
        stdin = test.check or json.dumps(test.input if test.call is None else test.call)
        lines = {"given": stdin[:1000], "expected": json.dumps(test.output)[:1000], "result": first.result}
        for name, text in lines.items():
            if name != "expected" or test.check is None:
                console.print(clean(f"test {first.index}: {name:8}  {text}"), soft_wrap=True)
