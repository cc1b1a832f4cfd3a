"""The domains by name: the shipped ones, and a recipe's own."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any

from ratchet.verifiers.domain import Domain
from ratchet.verifiers.environments.domain import ENVIRONMENTS, declared_environments
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import IMPORT_PATH, Registry

OWN_DOMAINS = "RATCHET_DOMAINS"
"""Import paths of a recipe's own domains, in the environment for child processes."""

DOMAINS: Registry[type[Domain]] = Registry(
    "domain",
    {
        name: f"ratchet.verifiers.{name}.domain:{name.title()}"
        for name in ("math", "code", "instructions", "science", "logic")
    },
    lambda value: isinstance(value, type) and issubclass(value, Domain) and value is not Domain,
    group="ratchet.domains",
    own="your own by its import path under `domains:` of the recipe",
)
_instances: dict[str, Domain] = {}


def domain_of(name: str) -> Domain:
    """The domain of this name: a shipped one, one of an installed package, or a recipe's own. Raises RatchetError that
    lists the known ones."""
    if name not in _instances:
        own = _own_domains()
        if name not in own and name not in DOMAINS:
            raise DOMAINS.unknown(name, own)
        _instances[name] = (own.get(name) or load_domain(DOMAINS.path(name)))()
    return _instances[name]


def load_domain(path: str) -> type[Domain]:
    """The domain at this import path. Raises RatchetError if it cannot be imported or lacks a required member."""
    domain = DOMAINS.load(path)
    missing = [name for name in ("name", "templates") if not getattr(domain, name, None)]
    if all(getattr(domain, name) is getattr(Domain, name) for name in ("score", "judged", "prepare")):
        missing.append("score")
    if missing:
        raise RatchetError(
            f"The domain {path} has no {' and no '.join(missing)}. docs/tutorials/own_domain.md lists the members."
        )
    return domain


def code_of(domains: Iterable[str]) -> list[str]:
    """Import paths of the code that asks and judges in these domains, for `infra.store.own_code`."""
    return [path for name in domains for path in domain_of(name).import_paths()]


def known_domains() -> list[str]:
    """Names of the shipped domains, those of installed packages, and the recipe's own."""
    return [*DOMAINS.names, *_own_domains()]


def own_domain_variables() -> str:
    """Environment variables, as a shell assigns them, for another program that judges in the recipe's own domains."""
    names = (IMPORT_PATH, OWN_DOMAINS, ENVIRONMENTS)
    return " ".join(f"{name}={quote(value)}" for name in names if (value := os.environ.get(name, "")) not in ("", "{}"))


def _own_domains() -> dict[str, type[Domain]]:
    own = map(load_domain, filter(None, os.environ.get(OWN_DOMAINS, "").split(",")))
    return {**{cls.name: cls for cls in own}, **declared_environments()}


def declare_domains(paths: Sequence[str], environments: Mapping[str, Mapping[str, Any]]) -> None:
    """Make these the domains besides the shipped ones, here and in child processes: `paths` are import paths of
    `Domain` classes, `environments` has `environment` and `arguments` by the name of the domain. Raises RatchetError
    for a name that is taken."""
    owners = dict.fromkeys(DOMAINS.shipped, "a shipped domain")
    owners |= {name: f"the installed domain {path}" for name, path in DOMAINS.installed.items()}
    for path in paths:
        name = load_domain(path).name
        if name in DOMAINS.installed and DOMAINS.load(DOMAINS.installed[name]) is DOMAINS.load(path):
            continue  # the installed class itself, named again
        if name in owners:
            raise RatchetError(f"domains: {path} has the name {name!r} of {owners[name]}; give it another.")
        owners[name] = f"the domain {path}"
    for name in environments:
        if name in owners:
            raise RatchetError(f"generate.{name}: an environment is a domain of that name, which is taken; rename it.")
    os.environ[OWN_DOMAINS], os.environ[ENVIRONMENTS] = ",".join(paths), json.dumps(environments)
    _instances.clear()
