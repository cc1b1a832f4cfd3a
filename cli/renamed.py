"""Answer old names of commands and options, and other tools' words for them, with the right ones."""

from collections.abc import Sequence

from ratchet.verifiers.errors import RatchetError

RENAMED = {
    ("decontaminate", "--benchmarks"): "--benchmark",
    ("deploy", "--at-a-time"): "--concurrency-limit",
    ("doctor", "--unused"): "ratchet gc",
    ("doctor", "--older-than"): "ratchet gc --older-than",
    ("doctor", "--forget"): "ratchet gc --forget",
    ("doctor", "--delete"): "ratchet gc --delete",
    ("evaluate", "--benchmarks"): "--benchmark",
    ("rehearse", "--samples"): "--rows",
    ("train", "--from"): "--model",
    ("train", "--machine"): "ratchet plan --machine",
    ("verify", "--solutions"): "--input",
}
"""The new name of a command's option, or the command that has it now."""
OTHERS = {
    "show": ("trace", "lineage", "inspect", "list", "ls", "artifacts", "status", "view"), "show recipes": ("recipes",),
    "new": ("init", "create"), "verify": ("judge", "grade", "score"), "evaluate": ("eval",), "ui": ("dashboard",),
}  # fmt: skip
"""Words of other tools, by the command that does it here."""
EXPORTS = ("problems", "hub", "runs")


def answer_old_names(words: Sequence[str]) -> None:
    """Raises RatchetError with the right name if a command, an option or an argument has an old or another one."""
    command, *rest = [word for word in words if word not in ("--debug", "--unsafe")] or [""]
    for word in rest:
        if new := RENAMED.get((command, word.partition("=")[0])):
            raise RatchetError(f"ratchet {command}: {word} is now {new}")
    for here, others in OTHERS.items():
        if command in others:
            raise RatchetError(f"There is no command {command!r}; it is: ratchet {here}")
    if command == "serve":
        raise RatchetError("Reward servers have a command of their own: ratchet-judge serve")
    first = next(iter(rest), "--help")
    if command == "show" and first == "gates":
        raise RatchetError("`ratchet show gates` is now ratchet show approvals")
    if command == "doctor" and not first.startswith("-"):
        raise RatchetError(f"A recipe is tested by another command: ratchet preflight {first}")
    if command == "export" and not first.startswith("-") and first not in EXPORTS:
        raise RatchetError("`export` has subcommands: ratchet export problems, ratchet export hub, ratchet export runs")
