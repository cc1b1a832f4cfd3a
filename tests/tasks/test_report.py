import json

from ratchet.infra.store.problem_table import to_table
from ratchet.tasks.report import training_tasks


def problems(domain, *metadata):
    return to_table(
        {"problem_id": f"{domain}{i}", "domain": domain, "prompt": "?", "metadata": facts and json.dumps(facts)}
        for i, facts in enumerate(metadata)
    )


def test_tasks_and_levels_of_the_training_set():
    puzzles = [{"task": "graph_color", "level": 10}, {"task": "graph_color", "level": 5}, {"task": "maze"}]
    found = training_tasks([problems("logic", *puzzles), problems("math", {"subject": "algebra"}, None)])
    assert found == {"logic": {"graph color": {5.0, 10.0}, "maze": frozenset()}, "math": {}}
    assert training_tasks([problems("logic", *puzzles, None)]) == {"logic": {}}, "one does not say its task"
    assert training_tasks([]) is training_tasks([problems("math")]) is None, "nobody knows"
