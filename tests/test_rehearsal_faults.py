"""The faults are planted at night; here, that each still can be, and names a mechanism of the recipe."""

import pytest
import yaml

from benchmarks.planted_faults import ROOT, Fault
from benchmarks.rehearsal_faults import TABLE
from ratchet.infra.recipe import load_recipe
from ratchet.rehearsal.layouts import layouts
from ratchet.rehearsal.mechanisms import Evidence, mechanisms
from ratchet.rehearsal.smaller import smaller

READ = yaml.safe_load(TABLE.read_text())


@pytest.mark.parametrize("fault", READ["faults"], ids=lambda fault: fault["name"])
def test_a_fault_fits_the_code_or_the_data(fault):
    if "data" in fault:
        owner, name, file = fault["data"].split("/", 2)
        assert file in layouts()[f"{owner}/{name}"]
    else:
        planted = Fault(fault["name"], fault["file"], fault["old"], fault["new"], ())
        assert planted.planted(ROOT) != (ROOT / fault["file"]).read_text()
    assert ("unseen" in fault) != ("reason" in fault)


def test_each_names_a_mechanism_that_its_recipe_asks_for(tmp_path):
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(READ["recipe"]))
    small, _ = smaller(load_recipe(file), {"math": 26, "code": 27}, 2, {"kind": "transformers"})
    asked = mechanisms(small, Evidence(tmp_path, []))
    assert not any(mechanism.seen for mechanism in asked)
    assert {fault["unseen"] for fault in READ["faults"] if "unseen" in fault} <= {one.name for one in asked}
