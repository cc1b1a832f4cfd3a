"""Code curation, after AceReason-Nemotron, section 3.2."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers import code_formats
from ratchet.data_curation.readers.columns import Format, has
from ratchet.data_curation.readers.plain_formats import CODE_COLUMNS
from ratchet.data_curation.rules import code_rules


def _header_and_check(columns: set[str]) -> bool:
    return bool(columns & {"prompt", "complete_prompt"}) and has(columns, "canonical_solution", "test")


def _question_and_tests(columns: set[str]) -> bool:
    return bool(columns & {*CODE_COLUMNS["prompt"]} and columns & {*CODE_COLUMNS["tests"]})


CODE = CurationPlan(
    plain=code_formats.plain_code,
    formats=(
        Format("leetcode", lambda c: has(c, "task_id", "completion", "entry_point"), code_formats.leetcode),
        Format("humaneval", _header_and_check, code_formats.humaneval),
        Format("codeeval-pro", lambda c: has(c, "raw_problem", "new_problem", "test_code"), code_formats.codeeval_pro),
        Format("mbpp", lambda c: has(c, "code", "test_list"), code_formats.mbpp),
        Format("codeforces", lambda c: has(c, "description", "official_tests"), code_formats.codeforces),
        Format("code-contests", lambda c: has(c, "description", "public_tests"), code_formats.code_contests),
        Format("livecodebench", lambda c: has(c, "question_content", "public_test_cases"), code_formats.livecodebench),
        Format("classeval", lambda c: has(c, "skeleton", "test", "class_name"), code_formats.classeval),
        Format("code", _question_and_tests, lambda row: code_formats.plain_code(row, {})),
    ),
    rules=code_rules.RULES,
    steps=("normalise", "rules", "decontaminate", "deduplicate", "validate_tests"),
    ngram=14,  # statements share more boilerplate than in math
    likeness=0.15,  # rephrased statements keep fewer words, as names change
)
