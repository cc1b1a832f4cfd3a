"""What of the user's own code is in a key: the module, what it imports beside it, and nothing else."""

import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ratchet.infra.store.own_code import own_code
from ratchet.verifiers.errors import RatchetError
from ratchet.verifiers.registry import IMPORT_PATH

LAB = {
    "a_lab/__init__.py": "",
    "a_lab/losses.py": "import json, torch\nfrom .deep import rules\n\ndef late():\n    import b_beside.part as p\n",
    "a_lab/deep/__init__.py": "from ratchet.verifiers.errors import RatchetError\n",
    "a_lab/deep/rules.py": "from importlib import import_module\nfrom .. import losses\nimport_module('c_named')\n",
    "b_beside/part.py": "from d_star import *\n",  # a namespace package
    "c_named.py": "x = 1\n",
    "d_star.py": "x = 1\n",
    "a_lab/unused.py": "x = 1\n",
    "unused.py": "x = 1\n",
}
USED = [name for name in LAB if "unused" not in name]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return laid(tmp_path / "lab", monkeypatch)


def laid(directory, monkeypatch, files=LAB):
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(IMPORT_PATH, str(directory))
    return directory


def test_a_byte_of_any_module_that_is_imported_is_another_hash(lab):
    first = own_code(["a_lab.losses:clipped"])
    assert first.keys() == {"a_lab.losses"}
    for name in LAB:
        before, text = own_code(["a_lab.losses"]), (lab / name).read_text()
        (lab / name).write_text(text + "#")
        assert (own_code(["a_lab.losses"]) != before) == (name in USED), name
        (lab / name).write_text(text)
    assert own_code(["a_lab.losses"]) == first, "the same text again"
    assert not {"a_lab.losses", "c_named", "d_star"} & sys.modules.keys(), "nothing is imported"


def test_a_lab_that_moves_keeps_its_hash(lab, tmp_path, monkeypatch):
    first = own_code(["a_lab.losses"])
    shutil.move(lab, tmp_path / "elsewhere")
    monkeypatch.setenv(IMPORT_PATH, str(tmp_path / "elsewhere"))
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(lab)])
    assert own_code(["a_lab.losses"]) == first


def test_code_that_this_process_has_imported_may_not_change_under_it(lab, monkeypatch):
    def with_text(text):
        (lab / "c_named.py").write_text(text)
        return own_code(["a_lab.losses"])

    assert with_text("x = 1\n") != with_text("x = 2\n"), "as often as it likes before"
    monkeypatch.setitem(sys.modules, "c_named", ModuleType("c_named"))
    before = own_code(["a_lab.losses"])
    for _ in range(2):
        with pytest.raises(RatchetError, match=r"c_named\.py has changed since .* Run it again"):
            with_text("x = 3\n")
    assert with_text("x = 2\n") == before
    monkeypatch.setitem(sys.modules, "c_named", ModuleType("c_named"))
    assert with_text("x = 3\n") != before, "imported again"


def test_our_own_modules_and_libraries_add_nothing(tmp_path, monkeypatch):
    ours = ["ratchet.training.losses.grpo:loss", "ratchet.examples.tiny_world.world"]
    assert own_code(ours) == {}
    assert own_code(["x==1.2"]) == {"x": "1.2"}
    root = Path(__file__).parents[2]  # a lab in a checkout of ours is the user's, our folders are not
    site = laid(
        tmp_path / "site-packages", monkeypatch, {"lib/__init__.py": "import other", "other.py": "", "lib/b.py": ""}
    )
    (lab := tmp_path / "lab").mkdir()
    (lab / "mine.py").write_text("import other, lib, verifiers, pytest\n")
    monkeypatch.setenv(IMPORT_PATH, os.pathsep.join(map(str, (site, lab))))
    sys.path.insert(0, str(root))
    mine, installed = own_code(["mine"]), own_code(["lib"])
    (site / "other.py").write_text("x = 1")
    assert own_code(["mine"]) == mine and own_code(["lib"]) == installed, "of others only the version counts"
    (site / "lib" / "__init__.py").write_text("import other\nx = 1")
    assert own_code(["mine"]) == mine and own_code(["lib"]) != installed, "but a plug-in may be installed"


@pytest.mark.parametrize("text", ["def (", "import .x", "\0", "from ... import far"])
def test_what_is_not_python_is_hashed_and_left_to_the_import_to_tell(lab, text):
    (lab / "c_named.py").write_text(text)
    before = own_code(["c_named"])
    (lab / "c_named.py").write_text(text + "\n")
    assert own_code(["c_named"]) != before and own_code(["no.such:thing"]).keys() == {"no.such"}
