"""Is this response right? Imports hardly anything: the sandbox's fork server loads this package too."""

import os.path

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""The directory of this package: a checkout, or `ratchet` in site-packages."""


def child_source(module: str) -> str:
    """A program for `python -P -c` that runs a module's `main()` without the parent's import system: the children that
    judge run without site-packages or with an empty environment."""
    package = f"p = types.ModuleType('ratchet'); p.__path__ = [{ROOT!r}]; sys.modules['ratchet'] = p"
    return f"import sys, types; {package}; from {module} import main; main()"
