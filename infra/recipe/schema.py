"""The JSON schema of recipe files, for completion and checks in an editor: `ratchet show schema`.

It is the models' own schema with the freedoms of a file: it may extend another recipe and so omit required fields,
override fields in `set`, and use the short forms of some sections.
"""

from typing import Any

from ratchet.infra.recipe.recipe import Recipe

WORD = {"type": "string"}
SHORT_FORMS = {
    "InferenceEngine": WORD,
    "Change": {"enum": ["reset", "stop"]},
    "Stage": {**WORD, "description": "A stage of the extended recipe, by its name."},
    "Curation": {"type": "null"},  # leaves out a domain of the extended recipe
}
"""Sections that a single word can stand for."""
OF_FILES = {
    "extends": {**WORD, "description": "Another recipe, shipped or a file, that this one is laid over."},
    "set": {
        "type": "array", "items": WORD,
        "description": "Overrides of the extended recipe, key.path=value: a number or a name is one of a list.",
    },
    "on_cpu": {
        "type": "object", "description": "Laid over this file on a machine without a GPU, which the command says.",
    },
}  # fmt: skip


def recipe_schema() -> dict[str, Any]:
    """JSON schema (2020-12) of a recipe file."""
    schema = Recipe.model_json_schema()
    sections = schema["$defs"]
    for section in (schema, *sections.values()):
        section.pop("required", None)
        section.get("properties", {}).pop("title", None)
    schema["properties"] |= OF_FILES
    sections["Stage"]["properties"]["domain"] = {**WORD, "description": "Short for `mix: {DOMAIN: 1.0}`."}
    for section, field in (("Training", "stages"), ("Evaluation", "benchmarks")):
        entries = sections[section]["properties"][field]
        by_name = {"type": "object", "description": "Changes of the extended recipe's, by name; null leaves one out."}
        about = {name: entries.pop(name) for name in ("description", "default") if name in entries}
        sections[section]["properties"][field] = {**about, "anyOf": [entries, by_name]}
    for name, short in SHORT_FORMS.items():
        sections[name] = {"anyOf": [short, sections[name]]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
