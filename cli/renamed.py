"""Old names of commands and options, which are answered with the new ones for one release."""

import shlex
from collections.abc import Sequence

from ratchet.verifiers.errors import RatchetError

OPTIONS = {
    ("decontaminate", "--benchmarks"): "--benchmark",
    ("deploy", "--at-a-time"): "--concurrency-limit",
    ("evaluate", "--benchmarks"): "--benchmark",
    ("rehearse", "--samples"): "--rows",
    ("train", "--from"): "--model",
    ("verify", "--solutions"): "--input",
}
"""The new name of a command's option."""
GARBAGE = ("--unused", "--older-than", "--forget", "--delete")
EXPORTS = ("problems", "hub", "runs")


def answer_old_names(words: Sequence[str]) -> None:
    """Raises RatchetError with the command as it is written now, for one that is written as it was before."""
    at = next((i for i, word in enumerate(words) if not word.startswith("-")), None)
    if at is None:
        return
    before, command, rest = list(words[:at]), words[at], list(words[at + 1 :])
    names = [word.partition("=")[0] for word in rest]
    if any((command, name) in OPTIONS for name in names):
        renamed = {name: OPTIONS[command, name] for name in names if (command, name) in OPTIONS}
        new = [renamed.get(name, name) + word[len(name) :] for name, word in zip(names, rest, strict=True)]
        changed = ", ".join(f"{old} is now {name}" for old, name in renamed.items())
        raise _now(changed, [*before, command, *new])
    if command == "doctor" and set(names) & set(GARBAGE):
        raise _now("What may be deleted is listed by `gc`", [*before, "gc", *(w for w in rest if w != "--unused")])
    if command == "doctor" and (recipe := _first_argument(rest)):
        raise _now(f"A recipe ({recipe}) is tested by `preflight`", [*before, "preflight", *rest])
    if command == "train" and "--machine" in names:
        raise _now("Time and memory are planned by `plan`", [*before, "plan", *(w for w in rest if w != "--dry-run")])
    if command == "plan" and "--advise" in names:
        why = "`--advise` is gone: give the settings to compare with --set; a plan says what fewer machines would do"
        raise _now(why, [*before, "plan", *(word for word in rest if word != "--advise")])
    if command == "export" and (what := _first_argument(rest)) and what not in EXPORTS:
        raise _now("`export` has subcommands", [*before, "export", *_exported(what, rest)])


def _exported(what: str, rest: list[str]) -> list[str]:
    values = {name: value for name, value in zip(rest, [*rest[1:], ""], strict=True) if name.startswith("--")}
    values |= dict(word.split("=", 1) for word in rest if word.startswith("--") and "=" in word)
    if "--for" in values:
        return ["runs", values.get("--recipe", "RECIPE"), "--for", values["--for"], "--output", what]
    if "--push" in values:
        return ["hub", *rest]
    if values.get("--format") == "hub":
        return ["hub", *(word for word in rest if word not in ("--format", "hub", "--format=hub"))]
    return ["problems", *rest]


def _first_argument(words: list[str]) -> str:
    """The first word that is neither an option nor the value of one."""
    takes_value = False
    for word in words:
        if word.startswith("-"):
            takes_value = "=" not in word and word not in FLAGS
        elif takes_value:
            takes_value = False
        else:
            return word
    return ""


FLAGS = ("--contents", "--private", "--help", "--json", "--quiet", "-q", *GARBAGE[:1], *GARBAGE[3:])


def _now(why: str, command: Sequence[str]) -> RatchetError:
    return RatchetError(f"{why}. Write: ratchet {shlex.join(command)}")
