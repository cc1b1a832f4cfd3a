import pytest

from ratchet.verifiers.extraction import after_thinking, boxed_answer, python_program
from tests.work import grows_linearly


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("\\boxed{42}", "42"),
        ("so \\boxed{ \\frac{1}{2} }.", "\\frac{1}{2}"),
        ("\\boxed{1} then \\boxed{2}", "2"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxed {7}", "7"),
        ("<think>\\boxed{1}</think> \\boxed{2}", "2"),
        ("<think>a</think> <think>b</think> \\boxed{3}", "3"),
        ("<think>\\boxed{1}</think> the answer is 1", None),
        ("<think>\\boxed{1}", None),
        ("</think>\\boxed{1}<think>", None),
        ("the answer is 42", None),
        ("\\boxed{3} and \\boxed{4", None),
        ("\\boxed{4} and then \\boxed{5 \\frac{1}{2}", None),
        ("\\boxed{\\boxed{5}}", "5"),
        ("\\boxed{x = \\boxed{5}, \\ y}", "5"),
        ("\\boxed{3 and \\boxed{4}", "4"),
        ("\\boxed{3}}} and {", "3"),
        ("\\boxed{5} and \\boxed{}", None),
        ("\\boxed{5}, in \\boxed form", "5"),
        ("<THINK>\\boxed{4}</THINK>", None),
        ("<Think>\\boxed{4}</THINK>\\boxed{5}", "5"),
        ("<THINK>\\boxed{4}", None),
        ("<think>\\boxed{4}</think> <Think> \\boxed{5}", None),
        ("\\boxed{}", None),
        ("\\boxed 5", None),
        ("", None),
        ("\\boxed{" + "1" * 2048 + "}", "1" * 2048),
        ("\\boxed{" + "1" * 2049 + "}", None),
    ],
)
def test_boxed_answer(response, expected):
    assert boxed_answer(response) == expected


def test_reads_after_the_last_closed_thinking():
    assert after_thinking("<think>x</think>y") == "y"
    assert after_thinking("y") == "y"
    assert after_thinking("<think>x") is None
    assert after_thinking("<THINK>x</Think>y") == "y"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("```py\na\n```\ntext\n```python\nb\n```", "b\n"),
        ("```python\na\n```\n```\noutput\n```", "a\n"),
        ("```\na\n```", "a\n"),
        ("1. so:\n   ```python\n   x = 1\n   if x:\n       y = 2\n   ```", "x = 1\nif x:\n    y = 2\n"),
        ("<think>```python\na\n```</think>none", None),
        ("```python\nx = 1", None),
        ("```python\n\n```", None),
        ("x = 1", None),
        ("```python3.11\na\n```\nOutput:\n```text\n2\n```\n", "a\n"),
        ("```{.python}\na\n```\n```\n2\n```\n", "a\n"),
        ("\ufeff```python\na\n```", "a\n"),
        ('```python title="x.py"\na\n```', "a\n"),
        ("```pypy3\na\n```\n```\nb\n```", "a\n"),
        ("```python\r\na\r\nb\r\n```\r\n", "a\nb\n"),
        ("```python\na\n``` This works.", "a\n"),
        ("```python\na\n``` This works.\n\nExample:\n```\n2\n```", "a\n"),
        (
            '```python\ndef f():\n    """\n    ```\n    f()\n    ```\n    """\n    return 1\n```',
            'def f():\n    """\n    ```\n    f()\n    ```\n    """\n    return 1\n',
        ),
        ('```python\n"""\n```\nf()\n```\n"""\nx = 1\n```', '"""\n```\nf()\n```\n"""\nx = 1\n'),
        ("~~~python\na\n~~~", "a\n"),
        ("````python\na\n```\nb\n````", "a\n```\nb\n"),
        ("- ```python\n  a\n  if b:\n      c\n  ```", "a\nif b:\n    c\n"),
        ("1. so:\n   ```python\n   x = 1\n   if x:\n       y = 2\n   ```", "x = 1\nif x:\n    y = 2\n"),
        ("```Python 3\na\n```", "a\n"),
        ("```{python, echo=FALSE}\na\n```", "a\n"),
        ("```py3.12 {1,3}\na\n```", "a\n"),
        ("```python:main.py\na\n```", "a\n"),
        ("```python,ignore\na\n```\n```bash\nb\n```", "a\n"),
        ("```python\nx = '''\n```", "x = '''\n"),
        ("```python\nx = 1", None),
        ("Use ```inline``` code\n```python\na\n```", "a\n"),
        ("```\na\n```\n```json\n{}\n```", "a\n"),
        ('```python\nprint(\'#"""\')\n```\n```\n3\n```', 'print(\'#"""\')\n'),
        ('```python\n# it\'s """\na\n```', '# it\'s """\na\n'),
        ("```python\n\n```", None),
        ("```cpp\na\n```", "a\n"),
        ("```python\na\n```\n\n```python\nb\n```", "b\n"),
        ("```python\na\n```.", "a\n"),
        ("   ```python\na\n   ```", "a\n"),
        ("**Solution:**\n\n```Python\na\n```\n", "a\n"),
        ('```python\ns = "```"\na\n```', 's = "```"\na\n'),
        ("```python \na\n```  \n", "a\n"),
        ("```python\na\n```</answer>", "a\n"),
        ("> ```python\n> a\n>\n> b\n> ```", "a\n\nb\n"),
        ("So:\n>> ```py\n>> if a:\n>>     b\n>> ```\nend", "if a:\n    b\n"),
        ("```python\na\n```\n> ```text\n> 2\n> ```", "a\n"),
        ("> ```python\n> a\n```python\nb\n```", "b\n"),
    ],
)
def test_python_program(response, expected):
    assert python_program(response) == expected


def test_long_hostile_responses_are_read_in_linear_time():
    assert boxed_answer("\\boxed{" * 20_000) is None
    assert python_program("```\n" * 30_001) is None
    for read, text in (
        (boxed_answer, "\\boxed{"),
        (boxed_answer, "{"),
        (python_program, "```\n"),
        (python_program, " "),
        (python_program, '```python\n"""\n'),
        (python_program, '```python\n"""\n```\n'),
        (python_program, "~~~\n```\n"),
        (python_program, ">"),
        (python_program, "> ```\n```\n"),
    ):
        assert grows_linearly(read, text * 10_000), text
