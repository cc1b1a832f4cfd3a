"""Answer old names of commands and options with the new ones, for one release."""

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
EXPORTS = ("problems", "hub", "runs")


def answer_old_names(words: Sequence[str]) -> None:
    """Raises RatchetError with the new name if an option or an argument has an old one."""
    command, *rest = [word for word in words if word not in ("--debug", "--unsafe")] or [""]
    for word in rest:
        if new := RENAMED.get((command, word.partition("=")[0])):
            raise RatchetError(f"ratchet {command}: {word} is now {new}")
    first = next(iter(rest), "--help")
    if command == "doctor" and not first.startswith("-"):
        raise RatchetError(f"A recipe is tested by another command: ratchet preflight {first}")
    if command == "export" and not first.startswith("-") and first not in EXPORTS:
        raise RatchetError("`export` has subcommands: ratchet export problems, ratchet export hub, ratchet export runs")
