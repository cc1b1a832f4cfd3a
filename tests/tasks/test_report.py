import json

import pytest

from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.report import require_same_settings
from ratchet.verifiers.errors import RatchetError


def test_evaluations_with_other_settings_are_not_compared(tmp_path):
    evaluations = []
    for name, temperature in (("first", 0.6), ("same", 0.6), ("warmer", 1.0)):
        (tmp_path / name).mkdir()
        scores = {"settings": {"temperature": temperature, "step_version": 1}, "benchmarks": {}}
        (tmp_path / name / "scores.json").write_text(json.dumps(scores))
        evaluations.append(Artifact("evaluation", name, name, tmp_path / name))
    require_same_settings(evaluations[:2])
    with pytest.raises(RatchetError, match=r"temperature: 0\.6 and 1\.0"):
        require_same_settings(evaluations)
