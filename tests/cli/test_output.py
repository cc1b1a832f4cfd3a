"""Old names, `--json` and `--quiet`, the wrapping of long lines, and the last words of a command that was stopped."""

import io
import json
import re

import pytest
import typer

from ratchet.cli import stopped
from ratchet.cli.main import app
from ratchet.cli.renamed import RENAMED, answer_old_names
from ratchet.cli.terminal import Terminal, print_command
from ratchet.tasks.reporter import ProgressReporter
from ratchet.verifiers.errors import RatchetError
from tests.flows.commands import MINI

PROGRAM = typer.main.get_command(app)


@pytest.mark.parametrize(("command", "old", "new"), [(*old, new) for old, new in RENAMED.items()])
def test_an_old_option_is_answered_with_the_new_one(command, old, new):
    for words in ((command, old, "x"), ("--debug", command, "--home", "y", f"{old}=x")):
        with pytest.raises(RatchetError, match=f"is now {new}$"):
            answer_old_names(words)
    *_, now, option = ["", command, *new.removeprefix("ratchet ").split()] if new != "ratchet gc" else ["gc", "--home"]
    options = ({name for each in PROGRAM.commands[of].params for name in each.opts} for of in (command, now))
    before, after = options
    assert old not in before and option in after


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("doctor tiny", "preflight tiny"),
        ("export problems/math --format trl", "export problems"),
        ("show gates", "show approvals"),
    ],
)
def test_an_old_argument_is_answered_with_the_new_command(old, new):
    with pytest.raises(RatchetError, match=f"ratchet {new}"):
        answer_old_names(old.split())
    answer_old_names(new.split())


def leaves(command, names=()):
    if not hasattr(command, "commands"):
        return [(names, command)]
    return [leaf for name, inner in command.commands.items() for leaf in leaves(inner, (*names, name))]


def test_every_command_but_the_servers_has_json_and_quiet_and_a_number_has_bounds():
    for names, command in leaves(PROGRAM):
        options = {name: parameter for parameter in command.params for name in parameter.opts}
        assert names == ("ui",) or {"--json", "--quiet", "-q"} <= options.keys(), names
        for name, parameter in options.items():
            if getattr(getattr(parameter, "type_descriptor", None), "annotation", None) in (int, float):
                assert parameter.min is not None and parameter.max is not None, (names, name)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "recipes"), ("show", "approvals"), ("show", "tiny"), ("show", "schema"), ("gc",), ("plan", MINI),
        ("doctor", "--contents"), ("run", MINI, "--dry-run"), ("curate", "math", MINI, "--dry-run"),
        ("verify", "math", "--gold", "1/2", "--response", r"\boxed{0.5}"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)  # fmt: skip
def test_json_is_all_that_stdout_has(typed, tmp_path, arguments):
    home = () if arguments[0] == "verify" else ("--home", tmp_path)
    done = typed(*arguments, "--json", *home)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)


def test_results_of_a_finished_home_as_json(finished_home, typed):
    def said(*arguments):
        done = typed(*arguments, "--json", "--home", finished_home)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    steps = said("run", MINI, "--dry-run")["steps"]
    assert {step["action"] for step in steps} == {"cached"} and all(len(step["key"]) == 64 for step in steps)
    ran = said("run", MINI)
    assert ran["artifact"].startswith("report/mini") and ran["table"] and ran["pages"]
    row = said("show", "How", "--recipe", "mini")[0]
    assert row["problem_id"] and row["steps"][0]["step"] == "normalize"
    first = min((finished_home / "tracking").glob("*.jsonl")).stem
    run = said("show", first)
    assert run["run"] == first and run["state"] == "finished after" and run["stages"] and run["made_from"]


def test_a_finished_run_does_nothing_again_and_quiet_prints_the_result_alone(finished_home, ratchet):
    loud, quiet = (ratchet("run", MINI, "--home", finished_home, *more) for more in ((), ("--quiet",)))
    assert loud.returncode == quiet.returncode == 0, loud.stderr + quiet.stderr
    marks = [line for line in loud.stdout.splitlines() if line.startswith("✓")]
    assert marks and all("(cached)" in line for line in marks)
    assert re.search(r"`ratchet ui`|in the background", loud.stdout)
    assert "✓" not in quiet.stdout and not re.search(r"`ratchet ui`|in the background", quiet.stdout)
    assert "artifact report/mini-" in quiet.stdout


WARNING = (
    "! held-out: scored, and curation.math is not decontaminated against it: add it to curation.math.benchmarks, or "
    "say why not in the benchmark's advanced.not_held_out, /a/very/long/path/that/no/terminal/of/sixty/columns/holds"
)


def test_long_lines_are_wrapped_at_words_in_a_terminal_and_whole_elsewhere():
    screen = io.StringIO()
    Terminal(file=screen, force_terminal=True, width=60).print(WARNING, soft_wrap=True, markup=False)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    lines = shown.rstrip("\n").split("\n")
    assert len(lines) > 3 and shown.split() == WARNING.split()
    assert all(len(line) <= 60 or " " not in line.strip() for line in lines)
    file = io.StringIO()
    Terminal(file=file, width=60).print(WARNING, soft_wrap=True, markup=False)
    assert file.getvalue() == WARNING + "\n"


def test_a_command_to_copy_has_no_line_end(monkeypatch):
    screen = io.StringIO()
    command = "ratchet run mine.yaml --set training.stages.0.steps=20 --set training.stages.1.steps=20 --home /a/b/c"
    print_command(command, Terminal(file=screen, force_terminal=True, width=40))
    assert command in re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())


def test_what_was_stopped_says_where(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["/nowhere/ratchet", "run", "tiny"])
    monkeypatch.setattr(stopped, "_watched", [])
    stopped.say_where_it_stopped()
    assert "Interrupted. No partial output is left; the same command starts over:" in capsys.readouterr().err
    reporter = ProgressReporter()
    reporter.step_started("train math-36")
    reporter.progress(12, 40, {})
    stopped.watch(reporter)
    stopped.say_where_it_stopped()
    said = " ".join(capsys.readouterr().err.split())
    assert "Interrupted in train math-36 (12/40). Finished work is kept; the same command continues from there:" in said
    assert said.endswith("/nowhere/ratchet run tiny")
    reporter.step_finished("train math-36", "", 1.0)
    stopped.say_where_it_stopped()
    assert "Interrupted. Finished work is kept" in capsys.readouterr().err
