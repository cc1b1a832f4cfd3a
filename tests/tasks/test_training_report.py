"""What a report shows of training."""

import json
import re
from collections.abc import Sequence

from ratchet.infra.pages import Document, to_html, to_markdown
from ratchet.infra.store.artifacts import Artifact
from ratchet.tasks.training_report import training_sections
from ratchet.training.interventions import AppliedIntervention


def checkpoint(
    directory,
    name: str,
    mix: dict[str, float],
    steps: int,
    taken: Sequence[AppliedIntervention] = (),
    step: str = "train",
):
    path = directory / f"{name}-{len(mix)}"
    path.mkdir()
    several = len(mix) > 1 or any("mix" in each.changed for each in taken)
    lines = []
    for i in range(1, steps + 1):
        numbers = {"reward": 0.1 * i, "pass_rate": 0.1 * i, "entropy": 0.5, "response_tokens": 10.0, "truncated": 0.1}
        numbers |= {"advantage_scale": 0.5}
        each = {f"{domain}/{k}": v for domain in mix for k, v in numbers.items()} if several else {}
        lines.append({"step": i, **numbers, **each, "max_response_tokens": 16.0})
    lines[-1]["validation"] = 0.4
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = {"kind": "checkpoint", "name": "s", "key": "k", "step": step, "parameters": {"stage": {"mix": mix}}}
    manifest |= {"inputs": [], "files": {}, "counts": {}}
    manifest |= {"interventions": [each.decision for each in taken]} if taken else {}
    (path / "manifest.json").write_text(json.dumps(manifest))
    return Artifact("checkpoint", name, f"key of {path.name}", path)


def test_each_run_has_its_curves_with_every_intervention_drawn_and_listed(tmp_path):
    cause = {"plateau": 3, "validation": 0.31234, "best": 0.4}
    added = {"mix": ({"math": 1.0}, {"math": 0.5, "logic": 0.5}), "max_response_tokens": (16, 32)}
    taken = [
        AppliedIntervention(60, 0, True, False, cause, {}),
        AppliedIntervention(140, 1, False, False, {"at_step": 140}, added),
    ]
    start = checkpoint(tmp_path, "start", {}, 1, step="warm_start")
    first = checkpoint(tmp_path, "math-16", {"math": 1.0}, 200, taken)
    second = checkpoint(tmp_path, "both-32", {"math": 1.0, "logic": 1.0}, 300)
    other = checkpoint(tmp_path, "alone", {"math": 1.0}, 1)
    before = {second.key: [first], first.key: [start]}

    sections = training_sections([start, first, second], lambda a: before.get(a.key, []))
    assert [section.title for section in sections] == ["Training", "Other training metrics", "Interventions"]
    assert "500 steps in 2 stages" in sections[0].caption
    assert sections[2].table == [
        {"stage": "math-16", "after step": 60, "what": "reset", "cause": "plateau 3, validation 0.3123, best 0.4"},
        {"stage": "math-16", "after step": 140, "what": "mix math 0.5 logic 0.5, max_response_tokens 32",
         "cause": "at_step 140"},
    ]  # fmt: skip
    panels = [panel.decode() for section in sections[:2] for panel in section.drawing.panels]
    assert len(panels) == 7 and all(">reset<" in panel and ">both-32<" in panel for panel in panels)
    assert [">logic<" in panel and ">math<" in panel for panel in panels] == [True] * 3 + [False] + [True] * 3
    for panel in panels:  # readable: 9 of a width of 389 points, which a page shows at 440 pixels or more
        assert float(re.search(r'viewBox="0 0 ([\d.]+)', panel)[1]) < 400
        assert min(map(float, re.findall(r"font-size: ([\d.]+)px", panel))) >= 9
    document = Document("t", sections=sections)
    assert "plateau 3" in to_html(document) and "figures/training.png" in to_markdown(document)

    apart = training_sections([start, first, second, other], lambda a: before.get(a.key, []))
    names = [section.title for section in apart]
    assert names[0].startswith("Training: both-32-") and names[3].startswith("Training: alone-")
    assert "1 steps in 1 stage." in apart[3].caption
    assert training_sections([start], lambda a: []) == []
    (first.path / "manifest.json").unlink()  # deleted
    assert "300 steps in 1 stage." in training_sections([start, second], lambda a: before.get(a.key, []))[0].caption
