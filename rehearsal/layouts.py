"""Data sets on the Hub that shipped recipes name, in their published layouts: file names, columns, nesting, types.

The rows are invented (`invented.py`). Every source has rows that its rules drop, a copy of a benchmark's item, and a
row twice, so that each step of curation has something to do.
"""

import base64
import csv
import io
import json
import pickle
import zlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ratchet.rehearsal.invented import (
    DROPPED,
    PEOPLE,
    PLACES,
    THINGS,
    MathProblem,
    Task,
    math_problem,
    order,
    science_problem,
    task,
)

Rows = list[dict[str, Any]]
TRAINED, ITEMS = 20, 6
"""Problems of a source, and of a benchmark."""
FIRST = {name: 1000 + 50 * i for i, name in enumerate((
    "math500", "aime24", "aime25", "hmmt25", "brumo25", "amc", "minerva", "olympiadbench", "gsm8k", "livecodebench",
    "humaneval", "humaneval-plus", "mbpp-plus", "codeforces", "apps", "codecontests", "taco", "gpqa",
    "ifeval"))}  # fmt: skip
"""Number of the first item of each benchmark."""


def _math(first: int, count: int = ITEMS) -> list[MathProblem]:
    return [math_problem(first + i) for i in range(count)]


def _tasks(first: int, count: int = ITEMS) -> list[Task]:
    return [task(first + i) for i in range(count)]


def _source_of_math(first: int) -> list[tuple[str, str, str]]:
    """(statement, answer, solution), with what rules, decontamination and deduplication drop."""
    problems = [
        *_math(first, TRAINED),
        math_problem(FIRST["math500"]),
        math_problem(FIRST["aime24"]),
        math_problem(first),
    ]
    rows = [(p.statement, str(p.answer), p.solution) for p in problems]
    return rows + [(statement, answer, f"The answer is {answer}.") for statement, answer in DROPPED]


# Math


def deepscaler() -> Rows:
    return [{"problem": p, "answer": a, "solution": s} for p, a, s in _source_of_math(0)]


def numina() -> Rows:
    checked = {"problem_is_valid": "Yes", "solution_is_valid": "Yes", "source": "olympiads", "synthetic": False}
    return [
        {"problem": p, "solution": s, "answer": a, "problem_type": "Algebra",
         "question_type": "math-word-problem"} | checked
        for p, a, s in _source_of_math(200)
    ]  # fmt: skip


def math_500() -> Rows:
    return [
        {"problem": p.statement, "solution": p.solution, "answer": str(p.answer), "subject": "Algebra", "level": 1,
         "unique_id": f"test/algebra/{i}.json"}
        for i, p in enumerate(_math(FIRST["math500"]))
    ]  # fmt: skip


def aime_2024() -> Rows:
    return [
        {"id": 60 + i, "problem": p.statement, "solution": p.solution, "answer": str(p.answer),
         "url": f"https://artofproblemsolving.com/wiki/index.php/2024_AIME_I_Problems/Problem_{i + 1}", "year": "2024"}
        for i, p in enumerate(_math(FIRST["aime24"]))
    ]  # fmt: skip


def math_arena(name: str) -> Rows:
    return [
        {"problem_idx": i + 1, "problem": p.statement, "answer": p.answer if name == "aime25" else str(p.answer),
         "problem_type": ["Algebra"]}
        for i, p in enumerate(_math(FIRST[name]))
    ]  # fmt: skip


def amc() -> Rows:
    problems = _math(FIRST["amc"])
    return [{"id": i, "problem": p.statement, "answer": float(p.answer), "url": ""} for i, p in enumerate(problems)]


def minerva() -> Rows:
    return [{"question": p.statement, "answer": str(p.answer)} for p in _math(FIRST["minerva"])]


def gsm8k(first: int, count: int) -> Rows:
    return [{"question": p.statement, "answer": f"{p.solution}\n#### {p.answer}"} for p in _math(first, count)]


def olympiad_bench() -> Rows:
    facts = {
        "context": None, "image_1": None, "modality": "Text-only", "difficulty": "Competition",
        "is_multiple_answer": False, "unit": None, "answer_type": "Numerical", "error": None,
        "question_type": "Open-ended", "subfield": "Algebra", "subject": "Math", "language": "English",
    }  # fmt: skip
    return [
        {"id": i, "question": p.statement, "solution": [p.solution], "final_answer": [str(p.answer)]} | facts
        for i, p in enumerate(_math(FIRST["olympiadbench"]))
    ]


# Code


def _assertions(one: Task, name: str = "candidate") -> str:
    return "\n".join(f"    assert {name}({nums!r}) == {value!r}" for nums, value in one.tests())


def _stdin(one: Task) -> list[tuple[str, str]]:
    return [(" ".join(map(str, nums)) + "\n", f"{value}\n") for nums, value in one.tests()]


def _program(one: Task) -> str:
    return f"nums = list(map(int, input().split()))\nprint({one.expression})\n"


def leetcode() -> Rows:
    tasks = [*_tasks(0, TRAINED), task(FIRST["livecodebench"]), task(0)]
    rows = []
    for i, one in enumerate(tasks):
        statement = f"Given an integer array nums, return the {one.statement}."
        solution = f"class Solution:\n    def solve(self, nums: List[int]) -> int:\n        return {one.expression}\n"
        rows.append(
            {"task_id": f"task-{i if i < len(tasks) - 1 else 'again'}", "question_id": i, "difficulty": "Easy",
             "tags": ["Array"],
             "problem_description": statement, "estimated_date": f"2023-{1 + i % 12:02d}-01",
             "starter_code": "class Solution:\n    def solve(self, nums: List[int]) -> int:\n        ",
             "prompt": "from typing import *\n\n", "completion": solution, "entry_point": "Solution().solve",
             "test": f"def check(candidate):\n{_assertions(one)}\n",
             "input_output": [{"input": f"nums = {nums}", "output": str(value)} for nums, value in one.tests()],
             "query": f"{statement}\n", "response": solution}
        )  # fmt: skip
    any_order = {"problem_description": "Given nums, return any permutation of it. You may return any valid answer."}
    one_test = {"test": "def check(candidate):\n    assert candidate([1]) == 1\n", "task_id": "few",
                "estimated_date": "2023-01-02",
                "problem_description": "Given nums with one element, return it and nothing else."}  # fmt: skip
    copies = [
        {"problem_description": row["prompt"], "task_id": f"copy-{name}"}
        for name in ("humaneval", "humaneval-plus")
        for row in humaneval(plus=name == "humaneval-plus")[:1]
    ]
    new = {
        "estimated_date": "2024-11-01",
        "task_id": "new",
        "problem_description": "Given nums, return its double sum of 2024.",
    }
    return [*rows, *({**rows[1], **change, "query": "Solve it."} for change in (any_order, one_test, new, *copies))]


def eurus() -> Rows:
    def row(source: str, ability: str, statement: str, truth: str) -> dict[str, Any]:
        ask = (
            "Write Python code to solve the problem."
            if ability == "code"
            else "Present the answer in LaTex format: \\boxed{Your answer}"
        )
        chat = [
            {"content": "Think step by step.", "role": "system"},
            {"content": f"{statement}\n\n{ask}", "role": "user"},
        ]
        return {
            "data_source": source, "prompt": chat, "ability": ability,
            "reward_model": {"ground_truth": truth, "style": "rule"}, "extra_info": {"index": 0, "split": "dummy"},
        }  # fmt: skip

    rows = []
    for i, one in enumerate(_tasks(200, TRAINED)):
        pairs = _stdin(one)
        truth: dict[str, Any] = {"inputs": [text for text, _ in pairs], "outputs": [output for _, output in pairs]}
        statement = f"One line has integers, perhaps none. Print the {one.statement}."
        if i % 3 == 0:
            truth = {
                "fn_name": "solve",
                "inputs": [[n] for n, _ in one.tests()],
                "outputs": [[v] for _, v in one.tests()],
            }
            statement = f"Write a function solve(nums) that returns the {one.statement}."
        rows.append(row("apps" if i % 3 == 0 else "codecontests", "code", statement, json.dumps(truth)))
    rows.append(rows[0])
    special = json.dumps({"inputs": ["3\n"] * 3, "outputs": ["1 2\n"] * 3})
    rows.append(
        row("taco", "code", "Print two numbers with sum n. If there are several answers, print any of them.", special)
    )
    held_out = task(FIRST["codeforces"])
    tables = [[text for text, _ in _stdin(held_out)], [text for _, text in _stdin(held_out)]]
    reference = json.dumps(dict(zip(("inputs", "outputs"), tables, strict=True)))
    rows.append(row("codeforces", "code", codeforces_statement(0, held_out), reference))
    rows.append(
        row("taco", "code", "Print the double of a number.", json.dumps({"inputs": ["3\n"], "outputs": ["6\n"]}))
    )
    guess = "This is an interactive problem. Guess a hidden number with at most 10 queries, and flush the output."
    rows.append(row("taco", "code", guess, special))
    return rows + [row("numina_olympiads", "math", p.statement, str(p.answer)) for p in _math(400, 8)]


def live_code_bench(file: int) -> Rows:
    first, month = FIRST["livecodebench"] + 10 * file, {4: "2024-08", 5: "2024-12", 6: "2025-03"}[file]
    rows = []
    for i, one in enumerate(_tasks(first if file > 4 else FIRST["livecodebench"], 3)):
        called = i == 0
        public, private = (
            [{"input": json.dumps(nums), "output": json.dumps(value), "testtype": "functional"} for nums, value in part]
            if called
            else [{"input": text, "output": output, "testtype": "stdin"} for text, output in part]
            for part in (_halves(one.tests()) if called else _halves(_stdin(one)))
        )
        starter = "class Solution:\n    def solve(self, nums: List[int]) -> int:\n        " if called else ""
        ask = "Given an integer array nums, return" if called else "One line has integers. Print"
        rows.append(
            {"question_title": f"Question {file} {i}", "question_content": f"{ask} the {one.statement}.",
             "platform": "leetcode" if called else "atcoder", "question_id": f"{file}{i}",
             "contest_id": f"contest-{file}",
             "contest_date": f"{month}-1{i}T00:00:00", "starter_code": starter, "difficulty": "easy",
             "public_test_cases": json.dumps(public),
             "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(json.dumps(private)))).decode(),
             "metadata": json.dumps({"func_name": "solve"} if called else {})}
        )  # fmt: skip
    return rows


def _halves(cases: list[Any]) -> tuple[list[Any], list[Any]]:
    return cases[:2], cases[2:]


def humaneval(plus: bool) -> Rows:
    rows = []
    for i, one in enumerate(_tasks(FIRST["humaneval-plus" if plus else "humaneval"])):
        prompt = f'def solve(nums):\n    """Return the {one.statement}."""\n'
        test = f"def check(candidate):\n{_assertions(one)}\n"
        rows.append({"task_id": f"HumanEval/{i}", "prompt": prompt,
                     "canonical_solution": f"    return {one.expression}\n",
                     "test": test, "entry_point": "solve"})  # fmt: skip
    return rows


def mbpp_plus() -> Rows:
    rows = []
    for i, one in enumerate(_tasks(FIRST["mbpp-plus"])):
        inputs, results = [[nums] for nums, _ in one.tests()], [value for _, value in one.tests()]
        loop = "for i, (inp, exp) in enumerate(zip(inputs, results)):\n    assertion(solve(*inp), exp, 0)\n"
        rows.append({"task_id": i, "code": f"def solve(nums):\n    return {one.expression}\n",
                     "prompt": f"Write a function to find the {one.statement}.", "source_file": "invented",
                     "test_imports": [],
                     "test_list": [f"assert solve({nums!r}) == {value!r}" for nums, value in one.tests()[:3]],
                     "test": f"inputs = {inputs!r}\nresults = {results!r}\n{loop}"})  # fmt: skip
    return rows


def codeforces_statement(number: int, one: Task) -> str:
    """Long enough to share n-grams with a copy."""
    return (
        f"On day {number + 1} a {PEOPLE[number]} {PLACES[number % 7]} writes some whole numbers on a single line, goes "
        f"for a walk with {THINGS[number]}, and returns to one question about that line. Print the {one.statement}."
    )


def codeforces() -> Rows:
    started = int(datetime(2024, 2, 1, tzinfo=UTC).timestamp())
    rows = []
    for i, one in enumerate(_tasks(FIRST["codeforces"])):
        cases = [{"input": text, "output": output} for text, output in _stdin(one)]
        rows.append({"id": f"19{i}/A", "contest_id": f"19{i}", "contest_start": started, "index": "A",
                     "time_limit": 2.0,
                     "memory_limit": 256.0, "title": f"Task {i}", "description": codeforces_statement(i, one),
                     "input_format": "One line has integers.", "output_format": "One integer.", "note": None,
                     "examples": cases[:1],
                     "editorial": None, "rating": 800, "tags": ["math"], "official_tests": cases,
                     "official_tests_complete": True,
                     "generated_checker": None})  # fmt: skip
    return [*rows, {**rows[0], "id": "199/B", "index": "B", "generated_checker": "import sys"}]


def _with_tables(name: str, **more: Any) -> Rows:
    rows = []
    for i, one in enumerate(_tasks(FIRST[name])):
        pairs = _stdin(one)
        tables = {"inputs": [text for text, _ in pairs], "outputs": [output for _, output in pairs]}
        rows.append({"question": f"One line has integers. Print the {one.statement}.",
                     "solutions": json.dumps([_program(one)]),
                     "starter_code": "", "input_output": json.dumps(tables), "url": f"https://example.org/{name}/{i}",
                     **more})  # fmt: skip
    return rows


def code_contests() -> Rows:
    rows = []
    for i, one in enumerate(_tasks(FIRST["codecontests"])):
        public, private = (
            {"input": [text for text, _ in half], "output": [output for _, output in half]}
            for half in _halves(_stdin(one))
        )
        rows.append({"name": f"19{i}_A. Task", "description": f"One line has integers. Print the {one.statement}.",
                     "public_tests": public, "private_tests": private, "generated_tests": {"input": [], "output": []},
                     "source": 2, "difficulty": 7, "solutions": {"language": [3], "solution": [_program(one)]},
                     "incorrect_solutions": {"language": [], "solution": []}, "cf_contest_id": 190 + i, "cf_index": "A",
                     "cf_rating": 800, "time_limit": {"seconds": 2, "nanos": 0},
                     "memory_limit_bytes": 256000000})  # fmt: skip
    return rows


# Science and instructions


def scp() -> Rows:
    rows = []
    for number in [*range(TRAINED), FIRST["gpqa"], 0]:
        question, value, unit = science_problem(number)
        solution = f"The product is {value}, so the answer is $\\boxed{{{value}\\ \\mathrm{{{unit}}}}}$."
        rows.append({"domain": "Physics", "problem": question, "matched_solution": solution})
    figure = {
        "problem": "As shown in the figure, a block slides. Find its speed.",
        "matched_solution": "It is $\\boxed{3}$.",
    }
    prove = {"problem": "Prove that momentum is conserved.", "matched_solution": "By Newton's third law it is."}
    return [*rows, {"domain": "Physics", **figure}, {"domain": "Physics", **prove}]


def gpqa() -> Rows:
    rows = []
    for number in range(FIRST["gpqa"], FIRST["gpqa"] + ITEMS):
        question, value, unit = science_problem(number)
        others = {f"Incorrect Answer {i}": f"{value + i} {unit}" for i in (1, 2, 3)}
        rows.append({"Record ID": f"rec{number}", "Question": question, "Correct Answer": f"{value} {unit}", **others,
                     "Explanation": "By the definition.", "Subdomain": "Physics",
                     "High-level domain": "Physics"})  # fmt: skip
    return rows


def rlvr_ifeval() -> Rows:
    empty = dict.fromkeys(("N", "quantifier", "end_phrase", "keyword_list", "word", "forbidden_words", "letter", "i",
                           "first_word", "postscript_marker", "options", "section_splitter", "original_prompt",
                           "language"))  # fmt: skip
    rows = []
    for number in [*range(TRAINED), FIRST["ifeval"], 0]:
        prompt, function, _, arguments = order(number)
        rows.append({"messages": [{"content": prompt, "role": "user"}],
                     "ground_truth": json.dumps({"func_name": function, **empty, **arguments}), "dataset": "ifeval",
                     "constraint_type": function, "constraint": prompt.rpartition(". ")[2]})  # fmt: skip
    unknown = json.dumps({"func_name": "validate_rhyme"})
    return [
        *rows,
        {**rows[1], "messages": [{"content": "Write a rhyme about rain.", "role": "user"}], "ground_truth": unknown},
    ]


def ifeval() -> Rows:
    rows = []
    for key in range(FIRST["ifeval"], FIRST["ifeval"] + ITEMS):
        prompt, _, kind, arguments = order(key)
        rows.append({"key": key, "prompt": prompt, "instruction_id_list": [kind], "kwargs": [arguments]})
    return rows


PART = "00000-of-00001.parquet"
LAYOUTS: dict[str, dict[str, Callable[[], Rows]]] = {
    "agentica-org/DeepScaleR-Preview-Dataset": {"deepscaler.json": deepscaler},
    "AI-MO/NuminaMath-1.5": {f"data/train-{PART}": numina},
    "HuggingFaceH4/MATH-500": {"test.jsonl": math_500},
    "HuggingFaceH4/aime_2024": {f"data/train-{PART}": aime_2024},
    "MathArena/aime_2025": {f"data/train-{PART}": lambda: math_arena("aime25")},
    "MathArena/hmmt_feb_2025": {f"data/train-{PART}": lambda: math_arena("hmmt25")},
    "MathArena/brumo_2025": {f"data/train-{PART}": lambda: math_arena("brumo25")},
    "AI-MO/aimo-validation-amc": {f"data/train-{PART}": amc},
    "math-ai/minervamath": {"test.jsonl": minerva},
    "Hothan/OlympiadBench": {"OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet": olympiad_bench},
    "openai/gsm8k": {
        f"main/train-{PART}": lambda: gsm8k(600, TRAINED),
        f"main/test-{PART}": lambda: gsm8k(FIRST["gsm8k"], ITEMS),
    },
    "newfacade/LeetCodeDataset": {"LeetCodeDataset-v0.3.1-train.jsonl": leetcode},
    "PRIME-RL/Eurus-2-RL-Data": {f"data/train-{PART}": eurus},
    "livecodebench/code_generation_lite": {
        "test4.jsonl": lambda: live_code_bench(4),
        "test5.jsonl": lambda: live_code_bench(5),
        "test6.jsonl": lambda: live_code_bench(6),
    },
    "openai/openai_humaneval": {f"openai_humaneval/test-{PART}": lambda: humaneval(plus=False)},
    "evalplus/humanevalplus": {"data/test-00000-of-00001-5973903632b82d40.parquet": lambda: humaneval(plus=True)},
    "evalplus/mbppplus": {"data/test-00000-of-00001-d5781c9c51e02795.parquet": mbpp_plus},
    "open-r1/codeforces": {f"data/test-{PART}": codeforces},
    "codeparrot/apps": {"test.jsonl": lambda: _with_tables("apps", difficulty="introductory")},
    "deepmind/code_contests": {"data/test-00000-of-00001-9c49eeff30aacaa8.parquet": code_contests},
    "BAAI/TACO": {"ALL/test/0000.parquet": lambda: _with_tables("taco", difficulty="EASY", time_limit="2.0 seconds")},
    "EricLu/SCP-116K": {f"data/train-{PART}": scp},
    "Idavidrein/gpqa": {"gpqa_diamond.csv": gpqa},
    "allenai/RLVR-IFeval": {f"data/train-{PART}": rlvr_ifeval},
    "google/IFEval": {"ifeval_input_data.jsonl": ifeval},
}
"""Files of each data set, by its name on the Hub."""


def write_layout(name: str, directory: Path) -> None:
    """The files of one data set, in their containers."""
    for path, rows in LAYOUTS[name].items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".parquet"):
            pq.write_table(pa.Table.from_pylist(rows()), file)
        else:
            file.write_text(_text(path, rows()), encoding="utf-8")


def _text(path: str, rows: Iterable[dict[str, Any]]) -> str:
    if path.endswith(".jsonl"):
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if path.endswith(".csv"):
        rows, out = list(rows), io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()
    return json.dumps(list(rows), ensure_ascii=False)
