"""The small interface that other projects use, as `verifiers/README.md` shows it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ratchet.verifiers
from ratchet.verifiers import JudgeSettings, Outcome, Problem, RatchetError, verify, verify_all

README = Path(ratchet.verifiers.__file__).with_name("README.md")


def test_the_readme_runs_as_it_stands():
    source = "\n".join(re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL))
    checked = []
    names = {}
    exec(source.partition("\nequivalent(")[0], names)
    for statement, comment in re.findall(r"^(?! |with|from|doubles)(.+?) +# (.+)$", source, re.MULTILINE):
        if "doubles" not in source.partition(statement)[0]:
            checked.append(str(eval(statement, names)) == comment.partition(":")[0])
    exec(source[source.index("doubles =") :].rpartition("\n[")[0], names)
    assert [verdict.outcome.value for verdict in names["verdicts"]] == ["passed", "unparseable"]
    assert checked == [True, True]


def test_promised_names_are_there_and_load_lazily():
    assert all(getattr(ratchet.verifiers, name) is not None for name in ratchet.verifiers.__all__)
    assert sorted(ratchet.verifiers.__all__) == dir(ratchet.verifiers)
    with pytest.raises(AttributeError, match="nothing"):
        _ = ratchet.verifiers.nothing
    lazy = "import sys, ratchet.verifiers; sys.exit(any('flint' in name or 'pint' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-P", "-c", lazy]).returncode == 0


def test_bad_input_gets_a_verdict():
    assert verify(Problem.of("math"), "\\boxed{1}").decided_by == "invalid_problem"
    assert verify(Problem.of("math", answer="1"), "Is it 1?").outcome is Outcome.UNPARSEABLE
    assert verify(Problem.of("math", answer="1"), "It is 1.", JudgeSettings()).outcome is Outcome.UNPARSEABLE
    assert verify(Problem.of("math", answer="1"), "It is 1.").passed
    with pytest.raises(RatchetError, match=r"There is no domain 'maths'\. Did you mean 'math'"):
        verify(Problem.of("maths", answer="1"), "\\boxed{1}")


def test_problems_from_plain_values():
    one = Problem.of("code", "Add one.", tests=[{"input": "1", "output": "2"}], metadata={"a": 1})
    assert one.problem_id == Problem.of("code", "Add one.").problem_id and one.metadata == '{"a": 1}'
    assert Problem.of("math", answer="1").problem_id != Problem.of("math", answer="2").problem_id
    with pytest.raises(TypeError, match="no_field"):
        Problem.of("math", no_field=1)


def test_many_at_once_in_order():
    problem = Problem.of("math", answer="\\frac{1}{2}")
    verdicts = verify_all([(problem, f"\\boxed{{{answer}}}") for answer in ("0.5", "1/3", "2/4")], workers=2)
    assert [verdict.passed for verdict in verdicts] == [True, False, True]


def test_a_missing_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ratchet.verifiers.serving.client", None)
    with pytest.raises(RatchetError, match=r"pip install './verifiers\[serve\]'"):
        ratchet.verifiers.open_pool(["http://127.0.0.1:1"])
