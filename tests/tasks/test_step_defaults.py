"""A key holds what differs from the defaults, so a default that is changed changes no key: the version of each step
that it enters has to. `step_defaults.json` says which defaults belong to which version.

    python -m tests.tasks.test_step_defaults      writes it again, after a field, a section or a step is new
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from ratchet.data_curation.base.section import Section
from ratchet.flows.evaluate import evaluate
from ratchet.flows.pipeline import pipeline
from ratchet.flows.runs import plan_run
from ratchet.infra.keys import in_key, not_in_key
from ratchet.infra.recipe import load_recipe
from ratchet.infra.settings import load_settings
from ratchet.infra.store import artifacts
from ratchet.tasks import step as steps
from tests.flows.commands import MINI

TABLE = Path(__file__).with_name("step_defaults.json")
Table = dict[str, dict[str, Any]]


def sections_of(value: Any) -> Iterator[type[Section]]:
    """Every class of settings in a step's parameters, or in a field's annotation."""
    if isinstance(value, type) and issubclass(value, Section):
        yield value
        for field in value.model_fields.values():
            if not not_in_key(field):
                yield from sections_of(field.annotation)
    elif isinstance(value, Section):
        yield from sections_of(type(value))
        for name in type(value).model_fields:
            yield from sections_of(getattr(value, name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from sections_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from sections_of(inner)
    else:
        for inner in get_args(value):
            yield from sections_of(inner)


def defaults(section: type[Section]) -> dict[str, Any]:
    fields = {name: field for name, field in section.model_fields.items() if not not_in_key(field)}
    return {name: in_key(f.get_default(call_default_factory=True)) for name, f in fields.items() if not f.is_required()}


def table_now(home: Path) -> Table:
    """What every step is made of, as plans of a whole run and of an evaluation say."""
    versions: dict[str, int] = {}
    sections: dict[str, set[type[Section]]] = {}

    def seen(step: str, version: int, name: str, parameters: Any, *read: Any) -> str:
        versions[step] = version
        sections.setdefault(step, set()).update(sections_of(parameters))
        return artifacts.artifact_key(step, version, name, parameters, *read)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "artifact_key", seen)
        recipe = load_recipe(MINI, ("training.stages.0.max_pass_rate=0.5",))
        with plan_run(recipe, load_settings(home)) as run:
            pipeline(run)
        with plan_run(recipe, load_settings(home)) as run:
            evaluate(run, "http://127.0.0.1:9#model")
    every = sorted({section for used in sections.values() for section in used}, key=lambda section: section.__name__)
    used = {step: sorted(section.__name__ for section in sections[step]) for step in sorted(sections)}
    return {
        "steps": {step: {"version": versions[step], "sections": names} for step, names in used.items() if names},
        "defaults": {section.__name__: defaults(section) for section in every},
    }


def forgotten(before: Table, now: Table) -> list[str]:
    """What has to be done about changed defaults."""
    found = []
    for step, facts in before["steps"].items():
        if now["steps"].get(step, {}).get("version") != facts["version"]:
            continue
        for section in facts["sections"]:
            known = now["defaults"].get(section, {})
            found += [
                f"raise the version of step {step}: the default of {section}.{name} was {old} and is {known[name]}"
                for name, old in before["defaults"][section].items()
                if name in known and known[name] != old
            ]
    return found


def test_a_changed_default_raises_the_version_of_its_steps(tmp_path):
    now, before = table_now(tmp_path), json.loads(TABLE.read_text())
    assert not forgotten(before, now)
    assert now == before, "something is new; write it down: python -m tests.tasks.test_step_defaults"


def test_a_changed_default_is_noticed(tmp_path):
    before = json.loads(TABLE.read_text())
    changed = json.loads(TABLE.read_text())
    changed["defaults"]["Deduplication"]["jaccard"] = 0.7
    changed["defaults"]["Rules"]["new"] = 1
    message = "raise the version of step deduplicate: the default of Deduplication.jaccard was 0.8 and is 0.7"
    assert forgotten(before, changed) == [message]
    changed["steps"]["deduplicate"]["version"] += 1
    assert forgotten(before, changed) == []


if __name__ == "__main__":
    now = table_now(Path("/nonexistent"))
    if TABLE.is_file() and (problems := forgotten(json.loads(TABLE.read_text()), now)):
        sys.exit("\n".join(problems))
    TABLE.write_text(json.dumps(now, indent=1) + "\n")
