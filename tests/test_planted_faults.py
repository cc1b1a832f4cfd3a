"""The drill itself runs every night; here, that each of its faults can still be planted."""

from collections import Counter

import pytest

from benchmarks.planted_faults import ROOT, Fault, read_faults

FAULTS = read_faults()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fits_the_code(fault):
    assert fault.planted(ROOT) != (ROOT / fault.file).read_text()


def test_no_two_faults_have_one_name():
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [("absent", "", "0 times"), ("a", "", "2 times"), ("b = 2", "b = ", "not valid Python")],
)
def test_a_fault_that_no_longer_fits_is_an_error(tmp_path, old, new, says):
    (tmp_path / "code.py").write_text("a = a\nb = 2\n")
    with pytest.raises(ValueError, match=says):
        Fault("it", "code.py", old, new, ()).planted(tmp_path)
