import pytest

from ratchet.data_curation.readers.templates import clean_statement, clean_text

STATEMENT = "Let x = 1. Find x + 1."
BOXED = "Please reason step by step, and put your final answer within \\boxed{}."
WRAPPED = {
    "dapo": (
        "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
        "$Answer (without quotes) where $Answer is the answer to the problem.\n\n",
        '\n\nRemember to put your answer on its own line after "Answer:".',
    ),
    "verl": ("", " Let's think step by step and output the final answer within \\boxed{}."),
    "reason": ("", f"\n\n{BOXED}"),
    "eurus": ("", "\n\nPresent the answer in LaTex format: \\boxed{Your answer}"),
    "eurus code": (
        "",
        "\n\nWrite Python code to solve the problem. Present the code in \n```python\nYour code\n```\nat the end.",
    ),
    "leetcode": (
        "",
        "\n \nPlease complete the following python code precisely:\n```python\nclass Solution:\n    def f(self): \n```",
    ),
    "livecodebench": (
        "You will be given a question (problem specification) and will generate a correct Python program that matches "
        "the specification and passes all tests.\n\n### Question:\n",
        "\n\n### Format: You will use the following starter code.\n```python\nclass Solution:\n```\n\n"
        "### Answer: (use the provided format with backticks)\n",
    ),
    "two of them": ("## Problem\n", f"\n\n{BOXED}"),
}


@pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)
def test_what_data_sets_wrap_around_a_statement_is_cut(wrapped):
    text, names = clean_statement(STATEMENT.join(wrapped))
    assert text == STATEMENT and names


@pytest.mark.parametrize(
    "text",
    [
        STATEMENT,
        "Please reason about step functions. How many are there?",
        "Write the final answer within \\boxed{} if you like, then find $x$ with $x = 2$.",
        "The question: is $n$ prime for $n = 7$?",
    ],
)
def test_statements_without_a_template_stay_as_they_are(text):
    assert clean_statement(text) == (text, [])


def test_accidents_of_typing_are_mended_and_nothing_else():
    assert clean_text("a\u00a0b\u200b\r\nc \n\ufeff") == "a b\nc"
    assert clean_text("e\u0301 ≤ 2² \\frac{1}{2}") == "é ≤ 2² \\frac{1}{2}"
