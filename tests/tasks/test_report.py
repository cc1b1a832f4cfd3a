import json

import pytest

from ratchet.infra.store.artifacts import Artifact
from ratchet.infra.store.problem_table import to_table
from ratchet.tasks.report import require_same_settings, training_tasks
from ratchet.verifiers.errors import RatchetError


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


def test_evaluations_with_other_settings_are_not_compared(tmp_path):
    evaluations = []
    for name, temperature in (("first", 0.6), ("same", 0.6), ("warmer", 1.0)):
        (tmp_path / name).mkdir()
        scores = {"settings": {"temperature": temperature}, "benchmarks": {}}
        (tmp_path / name / "scores.json").write_text(json.dumps(scores))
        evaluations.append(Artifact("evaluation", name, name, tmp_path / name))
    require_same_settings(evaluations[:2])
    with pytest.raises(RatchetError, match=r"temperature: 0\.6 and 1\.0"):
        require_same_settings(evaluations)
