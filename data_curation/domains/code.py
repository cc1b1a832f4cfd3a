"""Code curation, after AceReason-Nemotron, section 3.2."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers import code_formats, rl_formats
from ratchet.data_curation.readers.code_formats import parallel_tests, plain_code
from ratchet.data_curation.readers.columns import Format
from ratchet.data_curation.readers.plain_formats import CODE_COLUMNS
from ratchet.data_curation.rules import code_rules

_PROMPTS, _TESTS = ({*CODE_COLUMNS[field]} for field in ("prompt", "tests"))


_CHECKED, _HEADERS = {"canonical_solution", "test"}, {"prompt", "complete_prompt"}

CODE = CurationPlan(
    plain=plain_code,
    formats=(
        Format("leetcode", lambda c: c >= {"task_id", "completion", "entry_point"}, code_formats.leetcode),
        Format("humaneval", lambda c: c >= _CHECKED and bool(c & _HEADERS), code_formats.humaneval),
        Format("codeeval-pro", lambda c: c >= {"raw_problem", "new_problem", "test_code"}, code_formats.codeeval_pro),
        Format("mbpp", lambda c: c >= {"code", "test_list"}, code_formats.mbpp),
        Format("codeforces", lambda c: c >= {"description", "official_tests"}, code_formats.codeforces),
        Format("code-contests", lambda c: c >= {"description", "public_tests"}, code_formats.code_contests),
        Format("hardtests", lambda c: c >= {"pid", "question_content"}, code_formats.hardtests),
        Format("livecodebench", lambda c: c >= {"question_content", "public_test_cases"}, code_formats.livecodebench),
        Format("classeval", lambda c: c >= {"skeleton", "test", "class_name"}, code_formats.classeval),
        Format(
            "code-contests-plus", lambda c: c >= {"description", "correct_submissions"}, code_formats.code_contests_plus
        ),
        Format("intellect-3", lambda c: c >= {"question", "info"} and not c & _TESTS, rl_formats.intellect_3),
        Format("code", lambda c: bool(c & _PROMPTS and c & _TESTS), lambda row: plain_code(row, {})),
        Format("columns of tests", lambda c: bool(c & _PROMPTS and parallel_tests(c)), lambda row: plain_code(row, {})),
        rl_formats.verified("rlvr"),
        Format("annotated chat", lambda c: bool(c & rl_formats.CHATS), rl_formats.annotated_chat),
    ),
    rules=code_rules.RULES,
    steps=("rules", "decontaminate", "deduplicate", "validate_tests", "difficulty"),
    ngram=14,  # statements share more boilerplate than in math
)
