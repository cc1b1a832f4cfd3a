"""What tells a run from the others of its recipe."""

import re

import pytest

from ratchet.tasks.run_name import LONGEST, run_name


@pytest.mark.parametrize(
    ("overrides", "added"),
    [
        ([], ""),
        (["seed=3", "name=mine"], ""),
        (["training.stages.math-36.steps=10", "training.checkpoint_every=5"], ",math-36.steps=10,checkpoint_every=5"),
        (["training.stages.*.learning_rate=1e-6", "training.stages.*.learning_rate=2e-6"], ",learning_rate=2e-6"),
        (["evaluation.temperature=-1"], ",temperature=-1"),
        (["model.path=/models/Qwen/Qwen2.5-1.5B"], ",model.path=Qwen2.5-1.5B"),
        (['curation.math.inputs=["/a/b.json", "c/d e.json"]'], ",math.inputs=b.json-d-e.json"),
        (["curation.math.inputs=[]"], ",math.inputs="),
        (["curation.math.teacher.base_url=http://127.0.0.1:8000/v1"], ",math.teacher.base_url=127.0.0.1-8000-v1"),
        (["description=", "needs=Größe “x”; $(rm -rf /)\n"], ",description=,needs=Gr-e-x-rm--rf-"),
    ],
)
def test_a_name_says_what_differs(overrides, added):
    assert run_name("tiny", 0, "pipeline", overrides) == f"tiny-seed0-pipeline{added}"


def test_many_overrides_do_not_make_an_endless_name():
    name = run_name("tiny", 0, "pipeline", [f"training.hardware.field{n}={'v' * 60}" for n in range(40)])
    assert len(name) <= LONGEST + len(",+40") + 1
    assert re.fullmatch(r"tiny-seed0-pipeline(,hardware\.field\d=v{32})+,\+\d+", name)
