"""Bundled rows: every data set that a shipped recipe names has a layout, which its own reader reads."""

from fnmatch import fnmatch

import pytest

from ratchet.data_curation import read_problems
from ratchet.data_curation.base.problem_table import from_table
from ratchet.data_curation.trace_files import read_traces
from ratchet.infra.recipe import load_recipe
from ratchet.infra.recipe.load import shipped_recipes
from ratchet.rehearsal import invented
from ratchet.rehearsal.answers import candidates, wrong
from ratchet.rehearsal.layouts import layouts, write_layout
from ratchet.rehearsal.samples import on_hub, repository
from ratchet.verifiers import verify
from ratchet.verifiers.submission import EVERY_TEST


def named() -> dict[tuple[str, str], str]:
    """(domain, path on the Hub) of all shipped recipes, and the data set. Files that a recipe leaves to its user are in
    `test_rehearsal.py`."""
    paths: dict[tuple[str, str], str] = {}
    for name in shipped_recipes():
        recipe = load_recipe(name)
        names = on_hub(recipe)
        wanted = [(domain, path) for domain, own in recipe.curation.items() for path in own.inputs]
        wanted += [(benchmark.domain, benchmark.path or "") for benchmark in recipe.evaluation.benchmarks]
        if (start := recipe.training.warm_start) and not start.columns:
            wanted += [("math", path) for path in start.file_names]
        paths |= {(domain, path): repository(path) for domain, path in wanted if repository(path) in names}
    return paths


NAMED = named()


@pytest.mark.parametrize(("domain", "path"), sorted(NAMED))
def test_the_reader_reads_the_layout_of_each_data_set_under_its_published_file_names(domain, path, tmp_path):
    """Of a source enough rows that some are left after each rule has dropped one; and of each data set a problem with
    a right answer and a wrong one, which a rehearsal's model and teacher learn."""
    name = repository(path)
    write_layout(name, tmp_path)
    inside = path.removeprefix("hf://datasets/").partition("@")[0] if "@" not in path else ""
    pattern = inside.removeprefix(f"{name}").strip("/") or "*"
    files = [file for file in layouts()[name] if fnmatch(file, pattern)]
    assert files, f"no file of the layout is one of {path}"
    for file in files:
        table = read_problems(tmp_path / file, domain).kept
        assert len(table) >= 3, file
    table = read_problems(tmp_path, domain).kept
    assert len(table) >= (3 if "hf://" in path else 20)
    problem = next(iter(from_table(table)))
    assert any(verify(problem, text).passed for text in candidates(problem))
    assert not verify(problem, wrong(problem)).passed


def test_traces_of_several_domains_are_read_by_their_column(tmp_path):
    recipe = load_recipe("acereason-1.1-7b")
    start = recipe.training.warm_start
    [name] = start.file_names
    write_layout(name, tmp_path)
    [file] = [file for file in tmp_path.rglob("*") if file.is_file()]
    traces, rejected = read_traces(file, name, "math", lambda problem: "", start.columns, [*recipe.curation])
    assert not rejected and {trace.problem.domain for trace in traces} == {"math", "code"} and len(traces) >= 20


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 204, 1505])
def test_a_program_is_recognized_by_its_statement_and_is_right(number):
    task = invented.task(number)
    program = invented.program(f"Write a function solve(nums) that returns the {task['statement']}.")
    assert program is not None
    names = {}
    exec(program, names)  # our own text
    assert [names["solve"](*arguments) for arguments in task["arguments"]] == task["results"]
    assert invented.program("Write a poem about the sea.") is None


def test_wrong_programs_pass_some_tests_and_not_all(tmp_path):
    write_layout("PRIME-RL/Eurus-2-RL-Data", tmp_path)
    problems = [p for p in from_table(read_problems(tmp_path, "code").kept) if invented.program(p.prompt)]
    stdin = next(p for p in problems if p.entry_point is None)
    right, partial = (verify(stdin, text, EVERY_TEST) for text in (next(iter(candidates(stdin))), wrong(stdin)))
    assert right.passed and not partial.passed
    assert 0 < partial.fraction < 1
