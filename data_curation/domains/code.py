"""Code curation, after AceReason-Nemotron, section 3.2."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers import code_formats
from ratchet.data_curation.readers.columns import Format
from ratchet.data_curation.readers.plain_formats import CODE_COLUMNS
from ratchet.data_curation.rules import code_rules

_PROMPTS, _TESTS = ({*CODE_COLUMNS[field]} for field in ("prompt", "tests"))
_CHECKED, _HEADERS = {"canonical_solution", "test"}, {"prompt", "complete_prompt"}

CODE = CurationPlan(
    plain=code_formats.plain_code,
    formats=(
        Format("leetcode", lambda c: c >= {"task_id", "completion", "entry_point"}, code_formats.leetcode),
        Format("humaneval", lambda c: c >= _CHECKED and bool(c & _HEADERS), code_formats.humaneval),
        Format("codeeval-pro", lambda c: c >= {"raw_problem", "new_problem", "test_code"}, code_formats.codeeval_pro),
        Format("mbpp", lambda c: c >= {"code", "test_list"}, code_formats.mbpp),
        Format("codeforces", lambda c: c >= {"description", "official_tests"}, code_formats.codeforces),
        Format("code-contests", lambda c: c >= {"description", "public_tests"}, code_formats.code_contests),
        Format("livecodebench", lambda c: c >= {"question_content", "public_test_cases"}, code_formats.livecodebench),
        Format("classeval", lambda c: c >= {"skeleton", "test", "class_name"}, code_formats.classeval),
        Format("code", lambda c: bool(c & _PROMPTS and c & _TESTS), lambda row: code_formats.plain_code(row, {})),
    ),
    rules=code_rules.RULES,
    steps=("normalise", "rules", "decontaminate", "deduplicate", "validate_tests"),
    ngram=14,  # statements share more boilerplate than in math
)
