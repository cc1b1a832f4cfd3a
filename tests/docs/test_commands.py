"""Every command in README and docs exists, with its arguments and options."""

import re
from pathlib import Path

import pytest
import typer

from ratchet.cli.main import app
from ratchet.verifiers.serving.command import parser
from tests.docs.commands import ROOT, Command, commands

KNOWN = commands()
PROGRAM = typer.main.get_command(app)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def fault(command: Command) -> str:
    """Why it cannot be typed so; "" when it can."""
    program, *words = command.words
    words = [word for word in words if word != "…"]
    if program == "ratchet":
        return _of_ratchet(words, command.in_block)
    if program == "ratchet-judge":
        try:
            parser().parse_args(words)
        except SystemExit:
            return "its options are not these"
        return ""
    if program == "make":
        return ", ".join(
            f"no target {word}" for word in words if not word.startswith((".", "PYTHON=")) and word not in TARGETS
        )
    if program == "python" and words[:1] == ["-m"] and words[1] in ("pytest", "pip", "venv"):
        program, words = words[1], words[2:]
    if program == "python":
        return _of_python(words)
    paths = [word for word in words if word.startswith("tests/")] if program == "pytest" else []
    return ", ".join(f"no file {path}" for path in paths if not (ROOT / path.partition("::")[0]).exists())


def _of_ratchet(words: list[str], whole: bool) -> str:
    command, context = PROGRAM, typer.Context(PROGRAM, info_name="ratchet")
    while words and hasattr(command, "commands"):
        name, *words = words
        if name.startswith("-") and name not in {option for parameter in command.params for option in parameter.opts}:
            return f"no option {name}"
        if not name.startswith("-"):
            if name not in command.commands or command.commands[name].hidden:
                return f"no command {name}"
            command = command.commands[name]
            context = typer.Context(command, parent=context, info_name=name)
    try:
        command.parse_args(context, [word for word in words if word != "--help"])
    except Exception as error:
        incomplete = type(error).__name__ == "MissingParameter" or "requires an argument" in str(error)
        return "" if incomplete and not whole else str(error)
    return ""


def _of_python(words: list[str]) -> str:
    if words[:1] == ["-m"]:
        path = Path(words[1].replace(".", "/").removeprefix("ratchet/") + ".py")
    else:
        path = Path(next((word for word in words if word.endswith(".py")), "Makefile"))  # or an option of Python's
    if not (ROOT / path).is_file():
        return f"no file {path}"
    source = (ROOT / path).read_text()
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    return ", ".join(f"no option {option}" for option in options if f'"{option}"' not in source)


@pytest.mark.parametrize("page", sorted({command.page for command in KNOWN}))
def test_the_commands_of_a_page_exist_with_their_options(page):
    faults = {str(command): fault(command) for command in KNOWN if command.page == page}
    assert {command: said for command, said in faults.items() if said} == {}


def test_what_is_wrong_with_a_command_is_seen():
    wrong = {
        ("ratchet", "rum", "tiny"): "no command rum",
        ("ratchet", "run", "tiny", "--dry"): "No such option: --dry",
        ("ratchet", "curate"): "Missing parameter: domain",
        ("ratchet", "why", "tiny"): "no command why",
        ("ratchet", "--quick", "run"): "no option --quick",
        ("make", "coffee"): "no target coffee",
        ("python", "-m", "benchmarks.nothing"): "no file benchmarks/nothing.py",
        ("python", "docs/tools/screenshots.py", "--right"): "no option --right",
        ("python", "-m", "pytest", "tests/nothing.py"): "no file tests/nothing.py",
    }
    found = {words: fault(Command("page.md", " ".join(words), words, True)) for words in wrong}
    assert all(said in found[words] for words, said in wrong.items()), found
    assert fault(Command("page.md", "ratchet curate", ("ratchet", "curate"), in_block=False)) == ""
