"""Published sets for reinforcement learning whose rows say how a response is verified: one function each."""

import re
from typing import Any

from ratchet.data_curation.readers import code_formats
from ratchet.data_curation.readers.code_tests import TestSuite, from_script, from_specification
from ratchet.data_curation.readers.columns import RawRow, answer_text, chat_turns, parse_structure
from ratchet.data_curation.readers.plain_formats import MATH_COLUMNS, plain_math, with_context
from ratchet.data_curation.readers.raw_files import Malformed, Row

CHATS = frozenset(("messages", "conversations"))
_PROMPTS = ("prompt", "problem_statement", "question", "problem", "messages")
_FENCED = re.compile(r"```(?:python3?|py)?[^\S\n]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_NOT_JUDGED = (
    "swe", "judgeable", "judge", "prediction", "understanding", "unscramble", "kernel", "critique", "formatask", "json",
)  # fmt: skip


def verification(row: RawRow) -> Row:
    """SYNTHETIC-1 and 2, INTELLECT-2, open-r1's verifiable problems: `verification_info` has the ground truth or the
    test cases, and `task_type` says which."""
    facts, kind = row.take_structure("verification_info"), str(row.get("task_type") or "").casefold()
    if not isinstance(facts, dict):
        raise Malformed("verification_info", f"{type(facts).__name__} instead of an object")
    if any(word in kind for word in _NOT_JUDGED):
        raise Malformed("task_type", f"{kind!r} is verified by neither a math reference nor tests")
    prompt = row.take_statement(*_PROMPTS)
    found = (
        (name, facts[name])
        for name in ("test_cases", "tests", "unit_tests", "ground_truth", "answer")
        if facts.get(name)
    )
    name, truth = next(found, ("", None))
    if not name:
        raise Malformed(
            "verification_info", f"no ground_truth and no test_cases; it has {', '.join(map(str, facts)) or 'nothing'}"
        )
    parsed = _parsed(truth)
    if "cod" in kind or isinstance(parsed, dict) or name in ("test_cases", "tests", "unit_tests"):
        entry = facts.get("entry_point") or facts.get("fn_name")
        suite = _suite(parsed, entry)
        limits = row.take_structure("metadata")
        row |= {key: value for key, value in (limits if isinstance(limits, dict) else {}).items() if key not in row}
        gold = row.take("gold_standard_solution")
        return code_formats.tested(row, suite) | {
            "domain": "code",
            "prompt": prompt,
            "golden_solutions": _programs(gold),
            "source_url": row.take("problem_url", "url"),
            "time_limit_s": row.take_seconds("time_limit"),
            "memory_limit_mb": row.take_megabytes("memory_limit", "memory_limit_bytes"),
        }
    return {"domain": "math", "prompt": prompt, "answer": row.final_answer(answer_text(truth))}


def intellect_3(row: RawRow) -> Row:
    """INTELLECT-3-RL: a question with its answer, or with the tests in `info`."""
    info = _parsed(row.take("info"))
    info = info if isinstance(info, dict) else {}
    tests = next(
        (info[name] for name in ("tests", "test_cases", "unit_tests", "verification_info") if info.get(name)), None
    )
    if tests is None:
        return plain_math(row, {}) | {"domain": "math"}
    spec = _parsed(tests)
    suite = _suite(spec, info.get("fn_name") or info.get("entry_point"))
    problem = {
        "domain": "code",
        "prompt": row.take_statement(*_PROMPTS),
        "golden_solutions": [],
        "starter_code": info.get("starter_code"),
    }
    return problem | code_formats.tested(row, suite, info.get("starter_code"))


def nemo_gym(row: RawRow) -> Row:
    """NeMo Gym, Nemotron's sets for reinforcement learning: the last user turn of `responses_create_params.input`, and
    the reference or the unit tests of the row or its `verifier_metadata`."""
    asked = row.take_structure("responses_create_params")
    turns = asked.get("input") if isinstance(asked, dict) else None
    chat = RawRow({"input": turns})
    prompt = (
        row.take_statement("question", "problem")
        if row.get("question") or row.get("problem")
        else chat.take_statement("input")
    )
    more = row.take_structure("verifier_metadata", "metadata")
    if isinstance(more, dict):
        row |= {key: value for key, value in more.items() if key not in row}
    tests = _parsed(row.take("unit_tests", "test_cases", "tests"))
    if tests is not None:
        return code_formats.tested(row, _suite(tests, row.get("fn_name"))) | {"domain": "code", "prompt": prompt}
    answer = row.take_answer("expected_answer", "answer", "ground_truth")
    if answer is None:
        raise Malformed("expected_answer", "missing, and there are no unit_tests in verifier_metadata")
    return {"domain": "math", "prompt": prompt, "answer": answer}


def areal(row: RawRow) -> Row:
    """AReaL: `solutions` are the accepted references, each in a box; of code, `input_output` has the tests."""
    if row.get("input_output"):
        return code_formats.plain_code(row, {}) | {"domain": "code"}
    prompt, accepted = row.take_statement("prompt", "messages"), row.take_structure("solutions", "answer")
    first = accepted[0] if isinstance(accepted, list) and accepted else accepted
    return {"domain": "math", "prompt": prompt, "answer": row.final_answer(answer_text(first))}


def annotated_chat(row: RawRow) -> Row:
    """AM's distilled sets: the `info` of the user's turn has the reference or the tests. The reply is a model's."""
    name = row.filled(("messages", "conversations"))
    chat = row.take_structure(name)
    turns = [turn for turn in chat if isinstance(turn, dict)] if isinstance(chat, list) else []
    texts = [text for role, text in chat_turns(turns, name) if role == "user"]
    infos = [parse_structure(i, name) if isinstance(i, str) else i for i in (turn.get("info") for turn in turns) if i]
    info: dict[str, Any] = next((one for one in infos if isinstance(one, dict)), {})
    prompt = RawRow({name: texts[-1] if texts else None}).take_text(name)
    row["info"] = {key: value for key, value in info.items() if key not in ("think_content", "answer_content")}
    if tests := _parsed(info.get("test_case")):
        return code_formats.tested(row, _suite(tests)) | {"domain": "code", "prompt": prompt, "golden_solutions": []}
    answer = row.final_answer(answer_text(info.get("reference_answer") or info.get("ground_truth")))
    if answer is None:
        raise Malformed(name, "a chat whose info has no reference_answer, and a model's reply is no reference")
    return {"domain": "math", "prompt": prompt, "answer": answer}


def openthoughts(row: RawRow) -> Row:
    """OpenThoughts' metadata: a published solution, or test cases; DeepSeek's answers stay in the metadata."""
    kind = str(row.get("domain") or "math").casefold()
    if kind == "code" or row.get("test_cases"):
        row["golden_solutions"] = _programs(row.take("ground_truth_solution"))
        return code_formats.plain_code(row, {}) | {"domain": "code"}
    if kind not in ("math", "science", "biology", "chemistry", "physics", "puzzle"):
        raise Malformed("domain", f"{kind!r} has neither a reference nor tests")
    solution = row.pop("ground_truth_solution", None)
    row["solution"] = solution
    prompt = with_context(row.take_statement(*MATH_COLUMNS["prompt"]), row)
    answer = row.final_answer(answer_text(solution))
    domain = {"math": "math", "puzzle": "logic"}.get(kind, "science")
    return {"domain": domain, "prompt": prompt, "answer": answer}


def _suite(tests: Any, entry_point: str | None = None) -> TestSuite:
    """A script of assertions, a list of them, or a structure of cases."""
    if isinstance(tests, list) and tests and all(isinstance(one, str) for one in tests):
        tests = "\n".join(tests)
    return from_script(tests, entry_point) if isinstance(tests, str) else from_specification(tests, entry_point)


def _parsed(value: Any) -> Any:
    """A structure that may be JSON text; another text as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_structure(value, "tests")
        except Malformed:
            return value
    return value


def _programs(solution: Any) -> list[str]:
    """The Python programs of a published solution, perhaps in fenced blocks."""
    if isinstance(solution, list):
        return [program for one in solution for program in _programs(one)]
    if not isinstance(solution, str) or not solution.strip():
        return []
    return _FENCED.findall(solution) or [solution]
