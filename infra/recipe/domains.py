"""Load a recipe's own domains, and check every name of a domain or template in it."""

from collections.abc import Iterable, Mapping
from typing import Any

from ratchet.data_curation.base.prompts import PromptFormat, template_fault
from ratchet.infra.recipe.recipe import Recipe
from ratchet.verifiers.domains import declare_domains, domain_of
from ratchet.verifiers.environments.domain import GENERATOR
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.math.answer_patterns import BOXED


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
    scored = [benchmark.domain for benchmark in recipe.evaluation.benchmarks]
    used = list(dict.fromkeys([*domains, *scored]))
    for name in used:
        _check_templates(f"the domain {name}: templates", domain_of(name).templates, [name])
    _check_templates("model.prompt", recipe.model.prompt.templates, used)
    for benchmark in recipe.evaluation.benchmarks:
        own = {name: template for name, template in benchmark.prompt.items() if name not in PromptFormat.model_fields}
        _check_templates(f"benchmark {benchmark.name}: prompt", own, [benchmark.domain])
        if benchmark.advanced.answer_pattern != BOXED and not domain_of(benchmark.domain).compares_math:
            raise RatchetError(f"benchmark {benchmark.name}: answer_pattern is for math and science; the domain "
                               f"{benchmark.domain} reads responses in its own way.")  # fmt: skip
    return domains


def _check_templates(where: str, templates: Mapping[str, str], domains: Iterable[str]) -> None:
    """Raises RatchetError for a template that none of the domains has, or that cannot be filled in."""
    placeholders = {name: domain_of(domain).placeholders for domain in domains for name in domain_of(domain).templates}
    for name, template in templates.items():
        if name not in placeholders:
            raise RatchetError(
                f"{where}.{name}: no template of {', '.join(domains)} has this name. Known: "
                f"{', '.join(sorted(placeholders))}."
            )
        if fault := template_fault(template, placeholders[name]):
            raise RatchetError(f"{where}.{name}: {fault}.")


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
