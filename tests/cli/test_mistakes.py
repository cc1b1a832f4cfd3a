"""Mistakes that people make in their first days: each ends in a line that says what is wrong, and in exit code 2.

Those of numbers are in tests/infra/test_bounds.py.
"""

import json
import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.infra.tiny_endpoint import grow_model

RUN = ("run", "mine.yaml", "--dry-run")
CURATE = ("curate", "math", "mine.yaml", "--dry-run")
FILES = ("curate", "math", "examples/math_files", "--dry-run", "--benchmark", "test.csv", "--input")
CLEAN = ("decontaminate", "--output", "clean", "--benchmark", "test.csv", "--input")
EVALUATE = ("evaluate", "mine.yaml", "--dry-run", "--model")


def with_(setting: str) -> tuple[str, ...]:
    return (*RUN, "--set", setting)


MISTAKES = [
    # commands, options, values
    (("rum", "tiny"), "No such command 'rum'"),
    (("run", "tiny", "--dryrun"), "No such option: --dryrun"),
    (("run", "tiny", "mine.yaml"), "unexpected extra argument"),
    (("curate",), "Missing argument 'domain'"),
    (("run", "mine.yaml", "--seed", "one"), "'--seed': Input should be a valid integer"),
    (("plan", "mine.yaml", "--mean", "7"), "'--mean': Input should be less than or equal to 1"),
    (("plan", "mine.yaml", "--machine", "eight"), "eight"),
    (("plan", "mine.yaml", "--machine", "8xH1000"), "known GPUs are H100"),
    (("plan", "mine.yaml", "--stage", "math-2k"), "no stage 'math-2k'. Did you mean 'math-1k'"),
    (("plan", "examples/math_files"), "has no stages"),
    (("preflight", "examples/math_files"), "has no stages"),
    (("compare", "evaluation/start"), "two or more evaluations"),
    (("report",), "There is no evaluation yet"),
    (("doctor", "--unused", "--delete"), "--unused is now ratchet gc"),
    (("new", "rul", "a_rule"), "Did you mean 'rule'?"),
    (("new", "rule", "A-rule"), "'A-rule' cannot name a Python module"),
    (("new", "rule", "folder"), "folder exists already"),
    (("verify", "math", "--gold", "1"), "--response TEXT"),
    (("verify", "math", "--response", "1"), "--gold TEXT"),
    (("verify", "maths", "--gold", "1", "--response", "1"), "Did you mean 'math'?"),
    (("export", "problems", "problems/none", "--format", "pqt", "--output", "out"), "There is no --format 'pqt'"),
    (("export", "problems", "problems/none", "--format", "vrl", "--output", "out"), "Did you mean 'verl'"),
    (("export", "problems", "problems/none", "--format", "trl", "--output", "out"), "No artifact 'problems/none'"),
    (("export", "train.csv", "--format", "trl"), "`export` has subcommands: ratchet export problems"),
    (("export", "problems", "train.csv", "--format", "trl", "--output", "out"), "is not a readable Parquet"),
    (("export", "problems", "nothing.parquet", "--format", "trl", "--output", "out"), "nothing.parquet"),
    (("show", "checkpoint/none"), "checkpoint/none"),
    (("show",), "There are no artifacts"),
    (("show", "some text"), "has curated anything"),
    (("show", "--run", "mine-seed0-pipeline"), "A run is shown by ratchet show RUN"),
    (("show", "--home", "train.csv"), "train.csv is a file"),
    (("show", "--home", "train.csv/home"), "train.csv is a file"),
    # recipes that are none
    (("run", "mien.yaml"), "Did you mean 'mine.yaml'?"),
    (("run", "tinny"), "Did you mean 'tiny'?"),
    (("run", "dangling.yaml"), "dangling.yaml"),
    (("run", "folder"), "folder is a directory, not a recipe file"),
    (("run", "train.csv"), "train.csv is not a recipe: it is plain text"),
    (("run", "empty.yaml"), "empty.yaml is not a recipe: it is empty"),
    (("run", "list.yaml"), "list.yaml is not a recipe: it is a list"),
    (("run", "tabs.yaml"), "tabs.yaml is not valid YAML"),
    (("run", "brackets.yaml"), "brackets.yaml is not valid YAML: "),
    (("run", "itself.yaml"), "itself.yaml extends itself"),
    (("run", "lost.yaml"), "No recipe 'nowhere'"),
    (("run", "binary.yaml"), "binary.yaml is not a recipe: not UTF-8 text (at byte 4)"),
    # keys and values of a recipe
    (("run", "keys.yaml"), "Did you mean 'curation'?"),
    (with_("training.stages.0.learning_rat=1"), "Did you mean 'learning_rate'?"),
    (with_("training.stages.0.steps=many"), "training.stages.math-1k.steps: Input should be an integer"),
    (with_("training.stages.0.steps=-5"), "training.stages.math-1k.steps: Input should be at least 1"),
    (with_("training.stages.math-9k.steps=1"), "math-9k"),
    (with_("training.stages.0.steps"), "write key.path=value"),
    (with_("training.stages.0.mix={math"), "the value is not valid YAML"),
    (with_("training.stages.0.mix={math: 1}"), "give either domain: math or mix"),
    (with_("training.stages.0.loss=gppo"), "There is no loss 'gppo'. Did you mean"),
    (with_("training.stages.0.domain=puzzles"), "There is no domain 'puzzles'. Known: math"),
    (with_("training.stages.0.advantage=no.such"), "ModuleNotFoundError: No module named 'no'"),
    (with_("training.reward_servers=[http://127.0.0.1:1]"), "No reward server answers (http://127.0.0.1:1"),
    (with_("training.engine=vlm"), "training.engine: There is no engine 'vlm'. Did you mean 'vllm'?"),
    (with_("training.hardware.dtype=float61"), "training.hardware.dtype"),
    (with_("evaluation.after=[start, math-9k]"), "evaluation.after names 'math-9k'"),
    (with_("evaluation.pass_at=[64]"), "pass"),
    (with_("curation.math.teacher.kind=opnai"), "Did you mean 'openai'"),
    (with_("curation.math.teacher={kind: openai, model: m}"), "base_url"),
    (with_("curation.math.teacher={kind: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}"), "cannot be reached"),
    (with_("curation.math.columns={prompt: question}"), "there is no column 'question'"),
    (with_("curation.math.columns={question: Frage}"), "a problem has no field 'question'"),
    (with_("curation.math.columns={prompt: Frage, answer: Frage}"), "'Frage' is mapped to two fields"),
    (with_("model.prompt.math=Solve"), "model.prompt.math: it has none of {prompt}"),
    (with_("model.prompt.math='{prompt} In \\boxed{}.'"), "model.prompt.math: {} is not filled in"),
    (with_("model.prompt.math='{question}'"), "model.prompt.math: {question} is not filled in"),
    (with_("domains=[countdown]"), "The domain 'countdown' cannot be imported"),
    # the model
    (with_("model.path=./no-model"), "no-model"),
    (with_("model.path=train.csv"), "train.csv"),
    (with_("model.path=./folder"), "folder"),
    ((*EVALUATE, "./no-model"), "no-model"),
    (("evaluate", "tiny"), "Give a model"),
    (("curate", "mine.yaml"), "curate takes the domain first: ratchet curate math mine.yaml"),
    (("trace", "checkpoint/none"), "it is: ratchet show"),
    (("serve",), "ratchet-judge serve"),
    ((*EVALUATE, "checkpoint/none-000000000000"), "No artifact"),
    ((*EVALUATE, "http://127.0.0.1:9/v1"), "write URL#NAME"),
    ((*EVALUATE, "http://127.0.0.1:9/v1#m"), "http://127.0.0.1:9/v1 cannot be reached"),
    ((*EVALUATE, "http://[::1/v1#m"), "is not an address"),
    ((*EVALUATE, "http://me:pass@127.0.0.1:1/v1#m"), "--model: the address contains a password"),
    ((*EVALUATE, "./model", "--benchmark", "math50"), "Did you mean 'math500'?"),
    # data files
    (with_("curation.math.inputs=[tarin.csv]"), "tarin.csv"),
    ((*CURATE[:2], "examples/math_files", "--dry-run"), "curation.math.inputs is empty"),
    ((*FILES, "no-📚.csv"), "Cannot read the input file no-📚.csv"),
    ((*FILES, "dangling.json"), "dangling.json"),
    ((*FILES, "zeros.jsonl"), "zeros.jsonl: this is a binary file, or no text in UTF-8"),
    ((*FILES, "latin.jsonl"), "latin.jsonl: no row of it can be read"),
    ((*FILES, "quote.csv"), "quote.csv: no row of it can be read"),
    ((*FILES, "packed.jsonl.gz"), "packed.jsonl.gz: no row of it can be read"),
    ((*FILES, "folder"), "folder"),
    ((*FILES, "empty.jsonl"), "empty.jsonl: no row of it can be read"),
    ((*FILES, "train.csv"), "train.csv: unknown math format, its columns are Ergebnis, Frage, Note"),
    ((*FILES, "twice.csv"), "twice.csv: it has the columns a more than once"),
    ((*FILES, "report.xlsx"), "report.xlsx"),
    ((*FILES, "*.txt"), "*.txt"),
    (("curate", "mth", "mine.yaml"), "Did you mean 'math'?"),
    ((*CURATE, "--only", "dedup"), "Did you mean 'deduplicate'?"),
    ((*CLEAN, "train.csv"), "Name one with --text-column"),
    ((*CLEAN, "train.csv", "--text-column", "frage"), "there is no column 'frage'"),
    ((*CLEAN, "nowhere.json"), "nowhere.json"),
    ((*CLEAN, "test.csv", "--coverage", "30"), "'--coverage': Input should be less than or equal to 1"),
    ((*CLEAN, "test.csv", "--preset", "strict"), "--preset strict"),
    ((*CLEAN[:2], "folder", *CLEAN[3:], "test.csv"), "folder exists"),
]  # fmt: skip
PROGRAM = """if True:
    import contextlib, io, json, sys, traceback
    from ratchet.cli.main import main
    ends = []
    for words in json.load(sys.stdin):
        said, code = io.StringIO(), 0
        sys.argv = ["ratchet", *words]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            try:
                main()
            except SystemExit as end:
                code = end.code
            except BaseException:
                traceback.print_exc()
        ends.append([code, said.getvalue()])
    print(json.dumps(ends))
"""


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """How each of these commands ends, typed one after another in a directory with a good recipe and bad files."""
    directory = tmp_path_factory.mktemp("first-day")
    (directory / "folder").mkdir()
    grow_model(directory / "model")
    rows = "".join(f"What is {n} plus {n + 1} in base ten?;{2 * n + 1};{n}\n" for n in range(20))
    recipe = {
        "extends": "own-data", "name": "mine", "model": {"path": "./model"},
        "curation": {"math": {
            "inputs": ["train.csv"], "benchmarks": ["test.csv"], "columns": {"prompt": "Frage", "answer": "Ergebnis"},
        }},
        "evaluation": {
            "benchmarks": [{"name": "test", "domain": "math", "path": "test.csv", "samples": 4}], "max_tokens": 24,
        },
        "training": {"stages": {"math-1k": {"max_response_tokens": 24}}},
    }  # fmt: skip
    for name, text in {
        "mine.yaml": yaml.safe_dump(recipe), "train.csv": f"Frage;Ergebnis;Note\n{rows}",
        "test.csv": "problem,answer\nHow many primes are below 90?,24\n", "empty.jsonl": "", "twice.csv": "a,a\n1,2\n",
        "empty.yaml": "", "list.yaml": "- name: mine\n", "tabs.yaml": "name:\n\tmine\n",
        "brackets.yaml": "model: {path: x",
        "itself.yaml": "extends: itself.yaml\n", "lost.yaml": "extends: nowhere\n",
        "keys.yaml": "extends: own-data\nname: mine\ncuraton: {}\n",
        "quote.csv": 'problem,answer\n1,2,3,4\n"no end', "packed.jsonl.gz": "not packed", "zeros.jsonl": "\0" * 99,
    }.items():  # fmt: skip
        (directory / name).write_text(text)
    for name in ("report.xlsx", "binary.yaml"):
        (directory / name).write_bytes(b"PK\x03\x04\xff\xfe\x00" * 40)
    (directory / "latin.jsonl").write_bytes(b'{"problem": "\xff", "answer": "1"}')
    for name in ("dangling.yaml", "dangling.json"):
        (directory / name).symlink_to("nowhere")
    asked = json.dumps([words for words, _ in MISTAKES])
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], cwd=directory, input=asked, capture_output=True, text=True, timeout=900,
        env={**os.environ, "RATCHET_HOME": str(directory / "home"), "COLUMNS": "200", "HF_HUB_OFFLINE": "1",
             "RATCHET_JUDGE_TOKEN": "theirs"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (directory / "home" / "artifacts").exists() and not (directory / "clean").exists()
    return dict(zip((words for words, _ in MISTAKES), json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize(("words", "said"), MISTAKES, ids=[" ".join(words)[:90] for words, _ in MISTAKES])
def test_a_mistake_is_told_in_one_line(ends, words, said):
    code, shown = ends[words]
    assert code == 2 and "Traceback" not in shown, shown
    ours = "Error: " in shown
    reported = [line for line in shown.splitlines() if not line.startswith("planning: ")]  # the progress of a long plan
    lines = reported if ours else re.findall(r"^│ .*│$", shown, re.MULTILINE)  # the box of a usage error
    assert len(lines) == 1 or (ours and len(lines) == 2 and "model" in said + words[-1]), shown  # a line for each fault
    assert said in lines[0], shown
