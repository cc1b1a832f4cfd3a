"""Is this response right? Hardly anything is imported here: the sandbox's fork server loads this package too."""

import os.path

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""The directory that holds this package, whatever it is called: a checkout, or `ratchet` in site-packages."""


def child_source(module: str) -> str:
    """A program for `python -P -c` that runs `main()` of a module of ours, without the import system of whoever starts
    it: the children that judge run without site-packages or with an empty environment."""
    package = f"p = types.ModuleType('ratchet'); p.__path__ = [{ROOT!r}]; sys.modules['ratchet'] = p"
    return f"import sys, types; {package}; from {module} import main; main()"
