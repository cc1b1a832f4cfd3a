"""Mutation testing: each fault of `planted_faults.yaml` is planted in a copy of the repository, one at a time, and the
tests that should notice it run there.

    python -m benchmarks.planted_faults                # about half an hour on two cores
    python -m benchmarks.planted_faults --only KL clip # faults whose name contains one of these
    python -m benchmarks.planted_faults --check        # only that each fits the code, in seconds

The test that notices must fail twice with the fault and pass without it: one that fails anyway, or now and then, would
notice everything. Exits with 1 when a fault goes unnoticed, and with 2 when one cannot be planted or tried.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".yaml")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache", "*.egg-info", "mlruns")
LIMIT_S = 1200
PASSED, NOTICED = 0, 1
"""Exit codes of pytest; others mean that tests could not run."""


@dataclass(frozen=True)
class Fault:
    """`old`, which occurs exactly once in `file`, becomes `new`; the paths `tests` should notice."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def planted(self, root: Path) -> str:
        """The file's text with the fault. Raises ValueError where it no longer fits or is no valid Python."""
        text = (root / self.file).read_text()
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: the old text occurs {count} times in {self.file}, not once")
        faulty = text.replace(self.old, self.new)
        try:
            compile(faulty, self.file, "exec")
        except SyntaxError as error:
            raise ValueError(f"{self.name}: with the new text {self.file} is not valid Python: {error}") from error
        if missing := [path for path in self.tests if not (root / path).exists()]:
            raise ValueError(f"{self.name}: there is no {missing[0]}")
        return faulty


def read_faults() -> list[Fault]:
    faults = [Fault(**each | {"tests": tuple(each["tests"])}) for each in yaml.safe_load(TABLE.read_text())]
    if twice := [name for name, count in Counter(fault.name for fault in faults).items() if count > 1]:
        raise SystemExit(f"{TABLE.name}: two faults are called {twice[0]!r}")
    return faults


def misfit(fault: Fault) -> str:
    """Why the fault cannot be planted here; "" if it can."""
    try:
        fault.planted(ROOT)
    except ValueError as error:
        return str(error)
    return ""


class Copy:
    """A copy of the repository whose `ratchet` is the one that Python imports."""

    def __init__(self, directory: Path) -> None:
        self.root, site = directory / "repository", directory / "site"
        shutil.copytree(ROOT, self.root, symlinks=True, ignore=LEFT_OUT)
        site.mkdir()
        (site / "ratchet").symlink_to(self.root, target_is_directory=True)
        self._environment = {
            **os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        imported = self.python("-c", "import ratchet.verifiers.errors as errors; print(errors.__file__)").stdout.strip()
        if not Path(imported).resolve().is_relative_to(self.root.resolve()):
            raise SystemExit(f"the copy imports {imported}, which is not in it")

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=self._environment, capture_output=True, text=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip

    def test(self, paths: Iterable[str]) -> tuple[int, str]:
        """pytest's exit code, and its last lines. A run that takes too long has noticed the fault: it hangs."""
        try:
            run = self.python("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *paths)
        except subprocess.TimeoutExpired:
            return NOTICED, f"FAILED: not done after {LIMIT_S} s"
        return run.returncode, "\n".join((run.stdout + run.stderr).splitlines()[-15:])


def noticed_by(fault: Fault, copy: Copy) -> str:
    """The first test that fails with the fault, twice, and passes without it; "" if none fails. Raises ValueError where
    tests could not run, or one fails for another reason."""
    file = copy.root / fault.file
    whole = file.read_text()
    file.write_text(fault.planted(copy.root))
    try:
        code, end = copy.test(fault.tests)
        if code == PASSED:
            return ""
        if code != NOTICED:
            raise ValueError(f"{fault.name}: the tests did not run (pytest exited with {code})\n{end}")
        line = next((line for line in end.splitlines() if line.startswith(("FAILED", "ERROR"))), "")
        test = line.partition(" ")[2].partition(" ")[0].partition("[")[0]  # with all of its parameters
        again = copy.test([test] if test else fault.tests)[0]
    finally:
        file.write_text(whole)
    without = copy.test([test] if test else fault.tests)[0]
    if (again, without) != (NOTICED, PASSED):
        raise ValueError(f"{fault.name}: {test} fails, but not because of the fault\n{end}")
    return test or "pytest"


def plant_all(faults: Sequence[Fault], copy: Copy) -> int:
    missed = broken = 0
    for fault in faults:
        started = time.monotonic()
        try:
            by = noticed_by(fault, copy)
        except ValueError as error:
            broken += 1
            print(f"ERROR       {error}", flush=True)
            continue
        missed += not by
        seconds = time.monotonic() - started
        print(f"{'noticed' if by else 'NOT NOTICED':<11} {fault.name}  {by} ({seconds:.0f} s)", flush=True)
    print(f"{len(faults) - missed - broken} of {len(faults)} faults noticed, {missed} not, {broken} could not be tried")
    return 2 if broken else int(missed > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORDS", help="faults whose name contains these")
    parser.add_argument("--check", action="store_true", help="run no test: does every fault still fit the code?")
    arguments = parser.parse_args()
    faults = [fault for fault in read_faults() if any(words in fault.name for words in arguments.only)]
    if not faults:
        parser.error(f"no fault is called {' or '.join(arguments.only)}")
    if arguments.check:
        misfits = [*filter(None, map(misfit, faults))]
        print(*misfits, f"{len(faults) - len(misfits)} of {len(faults)} faults fit the code", sep="\n")
        sys.exit(2 if misfits else 0)
    with tempfile.TemporaryDirectory() as directory:
        sys.exit(plant_all(faults, Copy(Path(directory))))


if __name__ == "__main__":
    main()
