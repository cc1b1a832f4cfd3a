"""Problem packages in Kattis's format with checkers or interactors of their own, or files that programs are built with:
do accepted submissions pass, and do wrong ones fail?

    python benchmarks/special_judges.py --half report --results results.jsonl PACKAGES ...

PACKAGES are folders with packages; of two with the same name the first counts. Packages are split in halves by the hash
of their names. Of each, the shortest submissions are run, in Python 3 and C++: accepted ones on a few tests, wrong ones
on more, and as problems that are validated if an accepted one has passed, as curation does. Time limits are generous,
because packages state theirs for other machines and languages. `--results` gets a line for each submission; those that
are in it are not run again.
"""

import argparse
import ast
import hashlib
import json
from collections import Counter
from pathlib import Path

import yaml

from ratchet.data_curation.readers import kattis
from ratchet.data_curation.readers.malformed import Malformed
from ratchet.verifiers.code.judge import examine
from ratchet.verifiers.outcome import Outcome, Verdict
from ratchet.verifiers.problem import Problem
from ratchet.verifiers.sandbox.server import Sandbox, SandboxFault

TESTS = {"accepted": 8, "wrong_answer": 40}
LIMIT_S, MEMORY_MB, TESTS_BYTES = 10.0, 2048.0, 2_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--half", choices=("develop", "report"), required=True)
    parser.add_argument("--most", type=int, default=1, help="submissions of each language and verdict")
    parser.add_argument("--results", type=Path, required=True)
    arguments = parser.parse_args()
    done = [json.loads(line) for line in arguments.results.open()] if arguments.results.exists() else []
    seen = {(line["package"], line["submission"]) for line in done}
    with Sandbox() as sandbox, arguments.results.open("a") as results:
        for name, package in sorted(chosen(arguments.folders, arguments.half).items()):
            is_validated = any(line["package"] == name and line.get("outcome") == "passed" for line in done)
            for line in lines_of(name, package, arguments.most, seen, is_validated, sandbox):
                done.append(line)
                results.write(json.dumps(line) + "\n")
                results.flush()
    report(done)


def chosen(folders: list[Path], half: str) -> dict[str, Path]:
    packages: dict[str, Path] = {}
    for package in (package for folder in folders for package in kattis.packages(folder)):
        packages.setdefault(package.name, package)
    is_first = {name: hashlib.sha256(name.encode()).digest()[0] % 2 == 0 for name in packages}
    return {name: package for name, package in packages.items() if is_first[name] == (half == "develop")}


def lines_of(
    name: str, package: Path, most: int, seen: set[tuple[str, str]], is_validated: bool, sandbox: Sandbox
):  # fmt: skip
    try:
        row = kattis.read(package, TESTS_BYTES)
    except (Malformed, OSError, UnicodeDecodeError, yaml.YAMLError) as fault:
        if (name, "") not in seen:
            yield {"package": name, "submission": "", "kind": "not read", "detail": str(fault)}
        return
    facts = {name: row[name] for name in ("checker", "program_files", "comparison") if row.get(name)}
    if not facts.keys() & {"checker", "program_files"}:
        return
    checker = facts.get("checker", {})
    kind = "interactive" if checker.get("interactive") else "special" if checker else "compared"
    kind += ", built with files" if "program_files" in facts else ""
    for verdict, count in TESTS.items():
        taken = Counter()
        for language, source in kattis.submissions(package, verdict):
            key = f"{verdict} {hashlib.sha256(source.encode()).hexdigest()[:8]}"
            if taken[language] == most or (language == "python" and not is_python_3(source)):
                continue
            taken[language] += 1
            if (name, key) in seen:
                continue
            tests = row["tests"][:: max(1, len(row["tests"]) // count)]
            facts["answer_languages"] = [language]
            if is_validated and verdict != "accepted":
                facts["validate_tests"] = {"tests": len(tests)}
            problem = Problem.of("code", name, tests, metadata=facts, time_limit_s=LIMIT_S, memory_limit_mb=MEMORY_MB)
            try:
                outcome, checked = examine(problem, source, sandbox)
            except SandboxFault as fault:
                outcome, checked = Verdict(Outcome.INFRA_ERROR, decided_by="judge", detail=str(fault)), []
            is_validated = is_validated or outcome.passed
            yield {
                "package": name, "submission": key, "kind": kind, "checker": checker.get("language", "none"),
                "language": language, "verdict": verdict, "tests": len(tests), "outcome": outcome.outcome.value,
                "decided_by": outcome.decided_by, "detail": outcome.detail[:300],
                "difference": next((test.difference[:300] for test in checked if test.status != "passed"), ""),
            }  # fmt: skip


def is_python_3(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return "python2" not in source.partition("\n")[0]


def report(lines: list[dict]) -> None:
    judged = [line for line in lines if line["kind"] != "not read"]
    print("| | checker | submissions | packages | as published | other |\n|---|---|---|--:|--:|--:|")
    for group in sorted({(line["kind"], line["checker"], line["verdict"], line["language"]) for line in judged}):
        kind, checker, verdict, language = group
        own = [x for x in judged if (x["kind"], x["checker"], x["verdict"], x["language"]) == group]
        right = sum(agrees(line) for line in own)
        packages = len({line["package"] for line in own})
        print(
            f"| {kind} | {checker} | {verdict}, {language} | {packages} | {right} of {len(own)} | {len(own) - right} |"
        )
    for line in lines:
        if line["kind"] == "not read":
            print(f"not read: {line['package']}: {line['detail']}")
        elif not agrees(line):
            reason = line["difference"] or line["detail"]
            print(f"{line['package']} ({line['submission']}, {line['language']}): {line['decided_by']}: {reason}")


def agrees(line: dict) -> bool:
    wanted = ("passed",) if line["verdict"] == "accepted" else ("failed", "timeout")
    return line["outcome"] in wanted


if __name__ == "__main__":
    main()
