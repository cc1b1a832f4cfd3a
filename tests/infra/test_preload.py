import json
import subprocess
import sys

import pyarrow.parquet as pq

from ratchet.data_curation.base.problem_table import to_table
from ratchet.verifiers.problem import Problem

CODE = """
import sys
from ratchet.infra.launching.preload import load_domains
load_domains(sys.argv[1])
print("reasoning_gym" in sys.modules, "py3langid" in sys.modules)
"""


def test_libraries_of_puzzles_and_languages_are_loaded_before_the_first_verdict(tmp_path):
    entry = {"question": "1 + 1?", "answer": "2", "metadata": {}}
    puzzle = Problem("a", "logic", "1 + 1?", metadata=json.dumps({"task": "chain_sum", "entry": entry}))
    in_german = [{"id": "language:response_language", "kwargs": {"language": "de"}}]
    instruction = Problem("b", "instructions", "Say yes.", tests=json.dumps(in_german))
    malformed = Problem("c", "logic", "?", metadata="[")
    files = [str(tmp_path / f"{domain}.parquet") for domain in ("logic", "instructions", "absent")]
    pq.write_table(to_table([malformed, puzzle]), files[0])
    pq.write_table(to_table([instruction]), files[1])
    specification = tmp_path / "spec.json"
    for given, loaded in ((files, "True True"), (files[2:], "False False")):
        specification.write_text(json.dumps({"problems": {"a": given[0]}, "validation": dict(enumerate(given[1:]))}))
        done = subprocess.run([sys.executable, "-P", "-c", CODE, specification], capture_output=True, text=True)
        assert done.stdout.strip() == loaded, done.stderr
