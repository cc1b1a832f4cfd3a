import json

from ratchet.data_curation.base.problem_table import to_table
from ratchet.data_curation.settings.curation import Decontamination
from ratchet.data_curation.trace_files import read_traces
from ratchet.tasks.traces import without_held_out
from ratchet.verifiers.problem import problem_id

SHEEP = "A farmer has 17 sheep and all but nine of them wander off in the stormy night, so how many are left at home?"
LAMPS = "In how many ways can five red and three blue lamps be hung in a row so that no two blue ones are neighbors?"


def test_traces_of_held_out_problems_are_set_aside_whatever_stands_around_them(tmp_path):
    path = tmp_path / "t.jsonl"
    prompts = [f"Solve this. {SHEEP.upper()} Reason step by step.", LAMPS]
    path.write_text("\n".join(json.dumps({"prompt": prompt, "response": "9"}) for prompt in prompts))
    traces, _ = read_traces(path, "t", "math", lambda problem: problem.prompt, {})
    row = {"domain": "math", "source": "b", "source_id": "7", "problem_id": problem_id("math", SHEEP), "prompt": SHEEP}
    left, rejected = without_held_out(traces, [(to_table([row]), Decontamination())])
    assert [trace.prompt for trace in left] == [LAMPS]
    [gone] = rejected
    assert (gone["source"], gone["source_id"], gone["step"]) == ("t", "0", "decontaminate")
    assert json.loads(gone["evidence"])["item"] == "7"
