"""The domains of a recipe: its own are loaded, and every name of a domain or template in it is checked."""

from typing import Any

from ratchet.data_curation.base.prompts import template_fault
from ratchet.infra.recipe.recipe import Recipe
from ratchet.verifiers.domains import declare_domains, domain_of
from ratchet.verifiers.environments.domain import GENERATOR
from ratchet.verifiers.errors import RatchetError


def declare_own_domains(recipe: Recipe) -> None:
    """Load a recipe's own domains, and make them known here and in child processes. Raises RatchetError."""
    declare_domains(recipe.domains, _environments(recipe))


def use_domains(recipe: Recipe) -> list[str]:
    """Declare a recipe's own domains, and check every name of a domain or template in it. Returns the domains that it
    has problems of, those of `curation` first. Raises RatchetError."""
    if recipe.verification.math == "either" and not recipe.training.reward_servers:
        from ratchet.verifiers.math.second_verifier import check_installed

        check_installed()
    declare_own_domains(recipe)
    trained = [name for stage in recipe.training.stages for name in stage.domains]
    domains = list(dict.fromkeys([*recipe.curation, *trained]))
    named = [*domains, *(b.domain for b in recipe.evaluation.benchmarks)]
    placeholders = {name: domain_of(domain).placeholders for domain in named for name in domain_of(domain).templates}
    for name, template in recipe.model.prompt.templates.items():
        if name not in placeholders:
            raise RatchetError(f"model.prompt.{name}: no domain of this recipe has such a template; they have "
                               f"{', '.join(sorted(placeholders))}.")  # fmt: skip
        if fault := template_fault(template, placeholders[name]):
            raise RatchetError(f"model.prompt.{name}: {fault}.")
    for benchmark in recipe.evaluation.benchmarks:
        asked = domain_of(benchmark.domain)
        own = asked.templates
        if unknown := benchmark.prompt.keys() - own - {"response_prefix"}:
            raise RatchetError(f"benchmark {benchmark.name}: prompt: {', '.join(sorted(unknown))}: the domain "
                               f"{benchmark.domain} has no such template; it has {', '.join(own)}.")  # fmt: skip
        for name, template in benchmark.prompt.items():
            if name in own and (fault := template_fault(template, asked.placeholders)):
                raise RatchetError(f"benchmark {benchmark.name}: prompt.{name}: {fault}.")
        if benchmark.advanced.answer_pattern != "boxed" and not domain_of(benchmark.domain).compares_math:
            raise RatchetError(f"benchmark {benchmark.name}: answer_pattern is for math and science; the domain "
                               f"{benchmark.domain} reads responses in its own way.")  # fmt: skip
    return domains


def _environments(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The environments among its generators: each is a domain of that name."""
    declared = {}
    for name, generator in recipe.generate.items():
        if generator.by != GENERATOR:
            continue
        path, arguments = generator.settings.get("environment"), generator.settings.get("arguments") or {}
        if not isinstance(path, str):
            raise RatchetError(f"generate.{name}: name an environment, e.g. `environment: my_package.my_module`.")
        declared[name] = {"environment": path, "arguments": arguments}
    return declared
