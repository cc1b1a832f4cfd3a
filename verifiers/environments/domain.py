"""An environment as a domain: its prompts are used unchanged, its reward functions score in a confined process.

A recipe's entry `generate: {NAME: {by: verifiers, environment: PATH}}` declares the domain NAME. The environment itself
is loaded only where rows are made and where responses are scored.
"""

import importlib.metadata
import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from ratchet.verifiers.domain import Domain
from ratchet.verifiers.environments.library import LIBRARY, check_library, loader_of
from ratchet.verifiers.extraction import after_thinking
from ratchet.verifiers.problem import Problem

GENERATOR = "verifiers"
"""Value of `by` for a generator whose rows come from an environment."""
ENVIRONMENTS = "RATCHET_ENVIRONMENTS"
"""JSON, in the environment for child processes: `environment` and `arguments` by the name of the domain."""


class Environment(Domain):
    templates = {}
    requires = ("metadata",)
    reward = "graded"
    curation = "ratchet.data_curation.domains.environments:ENVIRONMENTS"
    path: ClassVar[str]
    """`module` or `module:function`, by default `load_environment`, which is called with `arguments`."""
    arguments: ClassVar[Mapping[str, Any]]

    def __init__(self) -> None:
        check_library()
        self._loaded: Any = None

    def import_paths(self) -> tuple[str, ...]:
        return loader_of(self.path), f"{LIBRARY}=={importlib.metadata.version(LIBRARY)}"

    def fault(self, problem: Problem) -> str:
        facts = json.loads(problem.metadata or "{}")
        if not isinstance(facts.get("row"), dict) or not isinstance(facts.get("messages"), list):
            return "its metadata has no row and no messages of an environment"
        path, arguments = facts.get("environment"), facts.get("arguments")
        same = (path, arguments) == (self.path, dict(self.arguments))
        return "" if same else f"its row is of {path} with {arguments}, the domain {self.name} of {self.path}"

    def extract(self, response: str) -> str | None:
        """The whole response, for the environment's parser. None while the thinking is open."""
        return None if after_thinking(response) is None else response

    def load(self) -> None:
        from ratchet.verifiers.environments.scoring import LoadedEnvironment

        self._loaded = LoadedEnvironment(self.path, self.arguments)
        self._loaded.warm_up()

    def score(self, problem: Problem, answer: str) -> float:
        if fault := self.fault(problem):
            raise ValueError(fault)
        facts = json.loads(problem.metadata or "{}")
        return self._loaded.score(facts["messages"], facts["row"], answer)


def declared_environments() -> dict[str, type[Environment]]:
    """The domains of the recipe in use, by name."""
    domains = {}
    for name, declared in json.loads(os.environ.get(ENVIRONMENTS) or "{}").items():
        about = {"path": declared["environment"], "arguments": declared.get("arguments") or {}}
        about |= {"name": name, "templates": {name: "{prompt}"}}
        domains[name] = type(f"Environment_{name}", (Environment,), about)
    return domains
