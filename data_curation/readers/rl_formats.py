"""Read published sets for reinforcement learning, whose rows say how a response is verified; `verified.yaml` has the
columns."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ratchet.data_curation.readers import code_formats
from ratchet.data_curation.readers.code_tests import from_published
from ratchet.data_curation.readers.columns import Format, RawRow, answer_text, chat_turns, parse_structure, programs
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS, plain_math, with_context
from ratchet.data_curation.readers.raw_files import Malformed, Row
from ratchet.verifiers.yaml_files import load_yaml

Layout = Mapping[str, Sequence[str]]
LAYOUTS: Mapping[str, Layout] = load_yaml(Path(__file__).with_name("verified.yaml"))
CHATS = frozenset(("messages", "conversations"))
_NOT_JUDGED = (
    "swe", "judgeable", "judge", "prediction", "understanding", "unscramble", "kernel", "critique", "formatask", "json",
)  # fmt: skip


def verified(name: str) -> Format:
    """The format of a layout in the table."""
    layout = LAYOUTS[name]
    every, some = {*layout["all"]}, {*layout.get("any", layout["all"])}
    return Format(name, lambda columns: columns >= every and bool(columns & some), partial(read_verified, layout))


def read_verified(layout: Layout, row: RawRow) -> Row:
    """Read a math problem with its reference, or a code problem with its tests, from the places of a layout."""
    for name in layout.get("parsed", ()):
        row[name] = _parsed(row.get(name))
    for name in layout.get("facts", ()):
        facts = row.take_structure(name)
        row |= {key: value for key, value in (facts if isinstance(facts, dict) else {}).items() if key not in row}
    places = {field: layout.get(field, ()) for field in ("entry_point", "starter_code", "source_url", "tests", "truth")}
    nested = [place for several in (layout["prompt"], *places.values()) for place in several if "." in place]
    for place in nested:
        row.lift(place)
    kind = str(row.get("ability") or row.get("task_type") or "").casefold()
    if row.get("task_type") and any(word in kind for word in _NOT_JUDGED):
        raise Malformed("task_type", f"{kind!r} is verified by neither a math reference nor tests")
    prompt = row.take_statement(*layout["prompt"])
    holders = {name: row.pop(name) for name in layout.get("parsed", ())}
    tests = _parsed(row.take(*places["tests"])) if places["tests"] else None
    truth = places["truth"] and row.get(row.filled(tuple(places["truth"])))
    if tests is None and ("cod" in kind or (kind != "math" and _are_tests(_parsed(truth)))):
        tests = _parsed(row.take(*places["truth"]))
    entry_point, starter, url = (
        row.take(*places[field]) if places[field] else None for field in ("entry_point", "starter_code", "source_url")
    )
    answer = row.take_answer(*places["truth"]) if truth and tests is None else None
    for place in nested:
        row.pop(place, None)
    if tests is None:
        if answer is None:
            raise _unverified(layout, holders)
        return {"domain": "math", "prompt": prompt, "answer": answer, "source_url": url}
    golden = [program for name in layout.get("golden_solutions", ()) for program in programs(row.pop(name, None))]
    return code_formats.tested(row, from_published(tests, entry_point), starter, *golden[:1]) | {
        "domain": "code",
        "prompt": prompt,
        "starter_code": starter,
        "golden_solutions": golden,
        "source_url": url,
        "time_limit_s": row.take_seconds("time_limit"),
        "memory_limit_mb": row.take_megabytes("memory_limit", "memory_limit_bytes"),
    }


def intellect_3(row: RawRow) -> Row:
    """Read INTELLECT-3-RL: a question with its answer, or with the tests in `info`."""
    layout, row["info"] = LAYOUTS["intellect-3"], _parsed(row.get("info"))
    if isinstance(row["info"], dict) and any(row["info"].get(place.partition(".")[2]) for place in layout["tests"]):
        return read_verified(layout, row)
    del row["info"]
    return plain_math(row, {}) | {"domain": "math"}


def annotated_chat(row: RawRow) -> Row:
    """Read AM's distilled sets: the `info` of the user's turn has the reference or the tests."""
    name = row.filled(("messages", "conversations"))
    chat = row.take_structure(name)
    turns = [turn for turn in chat if isinstance(turn, dict)] if isinstance(chat, list) else []
    infos = [parse_structure(i, name) if isinstance(i, str) else i for i in (turn.get("info") for turn in turns) if i]
    info: dict[str, Any] = next((one for one in infos if isinstance(one, dict)), {})
    if not (info.get("test_case") or answer_text(info.get("reference_answer") or info.get("ground_truth"))):
        raise Malformed(name, "a chat whose info has no reference_answer, and a model's reply is no reference")
    row["info"] = {key: value for key, value in info.items() if key not in ("think_content", "answer_content")}
    row["prompt"] = next((text for role, text in reversed(chat_turns(turns, name)) if role == "user"), None)
    return read_verified(LAYOUTS["annotated chat"], row)


def openthoughts(row: RawRow) -> Row:
    """Read OpenThoughts' metadata: a published solution, or test cases; DeepSeek's answers stay in the metadata."""
    kind = str(row.get("domain") or "math").casefold()
    if kind == "code" or row.get("test_cases"):
        row["golden_solutions"] = programs(row.take("ground_truth_solution"))
        return code_formats.plain_code(row, {}) | {"domain": "code"}
    if kind not in ("math", "science", "biology", "chemistry", "physics", "puzzle"):
        raise Malformed("domain", f"{kind!r} has neither a reference nor tests")
    solution = row.pop("ground_truth_solution", None)
    row["solution"] = solution
    prompt = with_context(row.take_statement(*MATH_COLUMNS["prompt"]), row)
    answer = row.final_answer(answer_text(solution))
    domain = {"math": "math", "puzzle": "logic"}.get(kind, "science")
    return {"domain": domain, "prompt": prompt, "answer": answer}


def _unverified(layout: Layout, holders: Mapping[str, Any]) -> Malformed:
    holder, _, name = layout.get("truth", layout.get("tests", [""]))[0].rpartition(".")
    there = ", ".join(map(str, holders[holder])) if isinstance(holders.get(holder), dict) else ""
    tests = f" and no {layout['tests'][0].rpartition('.')[2]}" if "tests" in layout else ""
    return Malformed(holder or name, f"no {name}{tests}" + (f"; it has {there}" if there else ""))


def _are_tests(truth: Any) -> bool:
    several = isinstance(truth, list) and bool(truth) and isinstance(truth[0], dict)
    return several or (isinstance(truth, dict) and "answer" not in truth)


def _parsed(value: Any) -> Any:
    """A structure that may be JSON text; another text as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_structure(value, "tests")
        except Malformed:
            return value
    return value
