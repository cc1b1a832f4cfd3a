"""Rules for math problems, in order of application (after AceReason, section 3.1)."""

import json
import re

from ratchet.data_curation.rules.evidence import Evidence, declared, no_answer, seen, unverifiable
from ratchet.data_curation.rules.labels import LabeledList, labeled_lists
from ratchet.data_curation.rules.language import non_english
from ratchet.data_curation.rules.patterns import any_of
from ratchet.data_curation.rules.pictures import needed
from ratchet.data_curation.settings.curation import Rules
from ratchet.verifiers.problem import APPENDED_OPTIONS, Problem

_VERBS = (
    "find|determine|compute|calculate|evaluate|simplify|solve|express|give|state|write|prove|show|compare|list|draw"
    "|sketch|explain|describe|deduce|verify|derive|estimate|factor|expand|convert|differentiate|check|use"
)
# Where an instruction begins; "a find" is none.
_AT_START = r"(?:\A|[.!?;:,)$]\s{1,8}|\n\s{0,8}|\b(?:and|then|hence|also|please|must|to)\s+)"
_ASKS = any_of(  # for a value, anywhere in a text
    r"\?",
    rf"{_AT_START}(?:find(?! a proof)|determine|compute|calculate|evaluate|simplify|solve|express|state"
    r"|give(?! a (?:\w+ )?(?:proof|justif|counterexample)))\b",
    r"\bwhat (?:is|are|was|will)\b",
    r"\bhow (?:many|much|long|far|old|large|often)\b",
)
_MARKS = r"[\s*:.,}\]\\]*(?:\([^()]{0,12}\)\s*)?"  # rest of the label, and "(5 points)"
_CONDITION = r"(?:(?:if|when|for|let|given|by)\b[^.?]*[,.;:]\s*)?"
_PART_ASKS = any_of(  # one part of a list, by its beginning or a question
    rf"\A{_MARKS}{_CONDITION}(?:hence,?\s+|then,?\s+|also\s+|now\s+)?(?:{_VERBS}|what|how|which|the same question)\b",
    r"\?|\b(?:find|what is|how many)\b",
)

_DRAWING_CODE = re.compile(r"\[asy\].{0,9999}?\[/asy\]", re.DOTALL)  # reflect(A)*(B) is no option
_CUE = any_of(
    r"\bwhich (?:one )?(?:of (?:the|these|those)|statement|option|expression|number|choice)",
    r"\b(?:choose|select|pick|tick)\b",
    r"\bcorrect (?:answer|option|choice|ones?)\b",
    r"\bletters? of\b|\boptions?\b|\bgiven numbers\b",
)
_CHOOSE = any_of(  # enough without any list
    r"\b(?:choose|select|pick|circle|tick) the correct (?:answer|option|choice)\b",
    r"\b(?:enter|answer|type|write)(?: with| either)? [\"“'][^\"“”']{1,12}[\"”'](?: for \w+)?,? "  # "odd", "even",
    r"[^.?!]{0,160}\b(?:or|and) [\"“']",  # or "neither"
)
_COUNTS = re.compile(r"\bhow many of (?:the|these|them|those)\b", re.IGNORECASE)


def multiple_choice(problem: Problem, limits: Rules) -> Evidence | None:
    """Options that the reader appended; a labeled list of options without a question in or after it; or an answer that
    is a letter, and words about a choice."""
    has_options = f'"{APPENDED_OPTIONS}"' in (problem.metadata or "")
    if has_options and (lines := json.loads(problem.metadata or "{}").get(APPENDED_OPTIONS)):
        return {"field": f"metadata.{APPENDED_OPTIONS}", "options": lines}
    text = _DRAWING_CODE.sub(lambda match: " " * len(match[0]), problem.prompt)
    letter = re.fullmatch(r"[A-H](?:\s*[).:].*|(?:\s*,\s*[A-H])*)", _unwrapped(problem.answer), re.I | re.S)
    numeral = re.fullmatch(r"\s*\(\d\)\s*", problem.answer or "")
    for options in labeled_lists(text):
        if _offers(options, bool(letter), bool(numeral)):
            start, end = options.span
            return {"text": problem.prompt[start:end], "span": [start, end], "options": len(options.parts)}
    cue = (_CUE.search(text) if letter and not _COUNTS.search(text) else None) or _CHOOSE.search(text)
    return seen(cue, answer=problem.answer) if cue else declared(problem, "question_type", "mcq")


def _offers(options: LabeledList, answer_is_letter: bool, answer_is_numeral: bool) -> bool:
    """True if these are options: conditions are followed by a question, and parts have one each."""
    *others, last = options.parts
    if not all(re.search(r"[^\s$\\{}~,;]", part) for part in options.parts):
        return False  # \underline{A} \underline{B} is a number of two digits
    if _COUNTS.search(options.stem) or len(options.parts) < (2 if answer_is_letter else 3):
        return False
    if answer_is_letter and options.kind in ("upper", "lower"):
        return True
    # Nothing is asked in or after the last option.
    if any(_PART_ASKS.search(part) for part in others) or _ASKS.search(last) or _PART_ASKS.match(last):
        return False
    if options.kind == "upper" or (options.kind == "digit" and answer_is_numeral):
        return True
    values = all(len(re.findall(r"(?<!\\)\b[^\W\d_]{3,}", part)) <= 2 for part in options.parts)
    if options.kind == "lower" and values and not _BARE_ASK.search(options.stem):
        return True
    return bool(_CUE.search(options.stem) or _CUE.search(last)) and options.kind != "ordinal"


_TRUTH = any_of(
    r"(?:it is )?(?:true|false)\b",
    r"(?:yes|no)(?:[.,;:!(\n]|\W*\Z)(?![^\n]*\d)",  # "no solution" is the answer to another question
    r"(?:(?:in)?correct|(?:im)?possible)\b(?! \w)|not necessarily\b",  # "Possible alignments are: 72"
)
_TRUTH_IF_ASKED = any_of(
    r"right|wrong|can(?:not|'t)?|[tfyn]|[√×✓✗✘](?: \(\w+\))?",
    r"(?:does not |doesn't )?exists?",
    r"there (?:is|are)(?: not| none)?",
    r"(?:(?:it|the (?:series|sequence|integral)) )?(?:converge|diverge)(?:s|nt)?",
    r"(?:not )?(?:an? )?(?:function|subspace|group)|(?:linearly )?(?:in)?dependent|(?:in)?consistent|(?:un)?stable",
)
_IF_SO = re.compile(r"\bif (?:so|yes|it (?:is|does|can|exists|converges))\b", re.IGNORECASE)
_POLAR = any_of(  # a question of yes or no
    r"(?:\A|[.?!:;,\n]\s*|\()(?:is|are|do|does|did|can|could|may|must|will|has|have)\b[^.?!]*\?",
    r"\b(?:whether|state t or f|mark|tick|can or cannot|right or wrong)\b|\b[ty]\s?/\s?[fn]\b",
)
_TRUE_OR_FALSE = any_of(
    r"\A\W*(?:true|right|tick)\s*(?:or|/)\s*(?:false|wrong|cross)\b",
    r"\btrue or false\W*\Z",
    r"\b(?:is|are|whether|if)\b[^.?!]{0,120}\btrue or false\b",
)


def true_false(problem: Problem, limits: Rules) -> Evidence | None:
    """An answer with two possible values."""
    answer = _unwrapped(problem.answer)
    if len(answer.split()) > 1 and _IF_SO.search(problem.prompt):
        return None  # "Yes, for $A \\cap B$": a value is asked for too
    if _TRUTH.match(answer) or (_TRUTH_IF_ASKED.fullmatch(answer) and _POLAR.search(problem.prompt)):
        return {"answer": problem.answer}
    lowered = problem.prompt.lower()
    match = (
        _TRUE_OR_FALSE.search(problem.prompt)
        if "false" in lowered or "wrong" in lowered or "cross" in lowered
        else None
    )
    return seen(match) if match and not re.search(r"\d", answer) else None  # "… How many programs output TRUE?"


_START = r"(?:\A|[.!?;:,)$]\s{1,8}|\n\s{0,8}|\b(?:and|then|hence|also|please|must|to|by)\s+)"
_CLAIM = r"(?:identity|inequality|formula|fact|equality|relation|equivalence|claim|statement|theorem|following)"
_PROOF = any_of(
    r"\b(?:prove|disprove|demonstrate)\b"
    r"(?:\s+(?:that|by|or|if|why|your|it|this|these|there|each|every|using)\b|\s*[:,])",
    r"\bprove\s+(?:\$|the\b|a\b|an\b|[A-Z]\w+'s)|\bprove\s[^.?!]{0,40}=|\binduction\b[^.?!]{0,40}\bprove\b",
    r"\bshow\s+(?:that|how|why)\b|\bshow\s*:|\bhence show\b",
    r"\bshow\s+(?:there|it|both|each|every|all)\b(?:(?!\b(?:that|which|who)\b)[^.?!]){0,60}"  # not "all letters that"
    r"\b(?:is|are|has|have|can|must|exists?)\b",
    r"\bshow,[^.?!]{1,80}(?:\bthat\b|:|\$)",
    rf"{_START}(?:verify|check|confirm|conclude|deduce|argue|establish|justify|derive)\s+(?:that|why|the {_CLAIM})\b",
    rf"{_START}(?:in your own words,? )?explain (?:why|that|how|what)\b",
    r"\b(?:proof|justification) (?:is )?required\b|\b(?:give|write|find) (?:a|the) (?:\w+ )?(?:proof|justification)\b",
)
_PROOF_CUES = (
    "prove", "demonstrate", "show", "verify", "check", "confirm", "conclude", "deduce", "argue", "establish", "justif",
    "derive", "explain", "proof",
)  # fmt: skip
"""Each match of `_PROOF` has one of these."""
_HINT = re.compile(r"\((?:hint|note|remark)\b[^()]*\)|\bhint[.:].*", re.IGNORECASE | re.DOTALL)
_RHETORICAL = re.compile(  # "Too many handshakes? At a party …"
    r"\A(?![^?]*\b(?:what|how|which|find)\b)[^.?!]{0,60}\?(?=\s+[A-Z])", re.IGNORECASE
)
_NO_VALUE = frozenset(("proof", "see proof", "see solution", "see the solution", "qed", "q.e.d", "proved", "proven"))


def proof(problem: Problem, limits: Rules) -> Evidence | None:
    """Only a proof is asked for, by the text or by the source's metadata."""
    if _unwrapped(problem.answer).lower() in _NO_VALUE:
        return {"answer": problem.answer}
    lowered = problem.prompt.lower()
    match = _PROOF.search(problem.prompt) if any(cue in lowered for cue in _PROOF_CUES) else None
    if match and not _ASKS.search(_RHETORICAL.sub("", _HINT.sub("", problem.prompt))):
        return seen(match)
    return declared(problem, "question_type", "proof")


_EACH = r"\s+(?:each|all)\b[^.?!:]{0,40}"
_THE_FOLLOWING = r"(?:\s+the)? following\b(?! (?:system|equation\b))[^.?!:]{0,60}"  # a system is one question
_OPENING_OF_A_LIST = r"\\begin\{\w+\}(?:\[[^\]]*\])?"
_BARE_ASK = re.compile(  # "Solve each equation.", "Evaluate:", "Find each of the following"; not "which verify"
    rf"(?<!which )(?<!that )(?<!to )(?<!they )"
    rf"\b(?:{_VERBS})\b(?:{_EACH}|{_THE_FOLLOWING})?\s*(?:[.:]\s*(?:{_OPENING_OF_A_LIST}\s*)?)?\Z",
    re.IGNORECASE,
)
_RULES_FOLLOW = re.compile(r"\b(?:rules?|conditions?|properties|steps|operations?)\b[^.?!:]{0,40}:\s*\Z", re.I)
_QUOTED = re.compile(r"[\"“”][^\"“”]{0,300}[\"“”]|\([^()]{0,200}\)")
_QUESTION = re.compile(r"[^.?!\n]*\b(?:what|how|which|find)\b[^.?!\n]*\?", re.IGNORECASE)
_SAME_AGAIN = re.compile(  # said in other words, or about the answer to the first
    r"\A\W*(?:in other words|that is|i\.e\.|if (?:so|yes|it does|it is)\b|which (?:option|one|of (?:the|these))\b"
    r"|how (?:would|do|can) you (?:justify|explain|know)|why\b|what is (?:her|his|their|your|the) (?:answer|result)\b)",
    re.IGNORECASE,
)
_ANSWERED = re.compile(  # "Subproblem 0: What is …? Solution: …": only what comes after is asked
    r"(?:sub)?(?:problem|question|part) \w{1,2}:(?:(?!\bsolution:).)*?\bsolution:.*?"
    r"(?=(?:sub)?(?:problem|question|part) \w{1,2}:|\Z)|\n#+ *(?:solution|answer)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_IN_A_FORM = re.compile(r"\b(?:written|expressed|form)\b", re.IGNORECASE)  # "… as $\frac mn$. What is $m+n$?"
_ALSO = any_of(
    r"[.;?]\s+(?:also,?|then also|and(?: then)?) (?:find|determine|compute|calculate|give|state)\b",
    r"\b(?:find|determine|compute|calculate)\b[^.?!;]{1,160}[^.?!;\s,] and (?:then )?(?:find|determine)\b",
    rf"{_AT_START}(?:find|determine|compute|calculate) also\b",
    r"\b(?:find|determine|compute|calculate)\b[^.?!;]{1,160}[.;] then,? (?:find|determine) its\b",
    r"\b(?:find|determine|compute|calculate) both the\b[^.?!]{1,120} and the\b",
    r"\bhow (?:many|much|far|long)\b[^.?!]{1,120},? and how (?:many|much|far|long)\b[^.?!]*\?",
    r"\breturn the (?:two )?answers\b",
)
_ALSO_CUES = (
    "also", "and find", "and determine", "and compute", "and calculate", "and give", "and state", "and then",
    "then find", "then determine", "then, find", "then, determine", "both the", "and how", "return the",
)  # fmt: skip
"""Each match of `_ALSO` has one of these."""
_LETTER = r"(?:\$ ?[a-zA-Z] ?\$|\\\( ?[a-zA-Z] ?\\\)|[b-zB-Z])"
_UNKNOWNS = re.compile(  # "Find the values of a and b", and the answer is one value
    rf"\b(?i:find|determine|compute|calculate|what (?:is|are)) (?:the (?:respective )?values? of )?"
    rf"(?:{_LETTER}, )*{_LETTER},? and (?:{_LETTER}|this (?:m(?:ax|in)imum|value))(?=[\s.,?;]|\Z)"
)
_BLANK = r"(?:_{2,}|\\_\\_|\\underline\{\\(?:hspace|qquad)[^}]*\})"
_TWO_BLANKS = re.compile(rf"{_BLANK}[^_]{{2,200}}?\w[^_]{{0,200}}?{_BLANK}")


def sub_questions(problem: Problem, limits: Rules) -> Evidence | None:
    """More than one question: a list with questions in two parts, or one request for all parts; two blanks; two
    questions in a row. Labeled conditions, coordinates, decimals, hints and answered parts do not count."""
    text = problem.prompt
    for pattern in (_ANSWERED, _HINT):
        text = pattern.sub(lambda match: " " * len(match[0]), text)  # keeps positions
    for parts in labeled_lists(text):
        if _RULES_FOLLOW.search(parts.stem):
            continue
        asking = sum(bool(_PART_ASKS.search(part)) for part in parts.parts)
        if asking >= 2 or (len(parts.parts) >= 2 and asking == 0 and _BARE_ASK.search(parts.stem)):
            start, end = parts.span
            return {"text": problem.prompt[start:end].strip(), "span": [start, end]}
    lowered = text.lower()
    also = _ALSO.search(text) if any(cue in lowered for cue in _ALSO_CUES) else None
    if match := also or (_TWO_BLANKS.search(text) if "_" in text or "underline" in text else None):
        return seen(match)
    if (match := _UNKNOWNS.search(text)) and re.fullmatch(r"[^,;&=]*", answer := problem.answer or "") and answer:
        return seen(match, answer=answer)
    if text.count("?") < 2:
        return None
    plain = _QUOTED.sub(lambda match: " " * len(match[0]), text)
    questions = [match for match in _QUESTION.finditer(plain) if not _SAME_AGAIN.match(match[0])]
    if len(questions) >= 2 and not _IN_A_FORM.search(plain, questions[0].end(), questions[1].end()):
        return {"text": text[slice(*questions[1].span())], "span": list(questions[1].span())}
    return None


def figure(problem: Problem, limits: Rules) -> Evidence | None:
    """A picture, or a reference to one, and a text without numbers; or a question that only a picture can answer."""
    match = needed(problem.prompt)
    return {"text": problem.prompt[slice(*match.span())], "span": list(match.span())} if match else None


MAX_DIGITS = 30
"""Most digits of a number in an answer."""
MAX_ANSWER_CHARACTERS, MAX_ANSWER_NUMBERS, MAX_ANSWER_WORDS = 100, 8, 4
"""Longer answers are hard to verify, or sentences."""


def long_answer(problem: Problem, limits: Rules) -> Evidence | None:
    """The answer is long, a sentence, a series, or has many numbers: hard to verify."""
    answer = problem.answer or ""
    characters, numbers = len(answer), len(re.findall(r"\d+(?:\.\d+)?|\\infty|∞", answer))
    prose = re.sub(r"\\(?:begin|end)\{\w+\*?\}|\\(?:text|mathrm|mbox|textbf)\w*\s*\{|\\[a-zA-Z]+", " ", answer)
    words = len(re.findall(r"[^\W\d_]{2,}", prose)) if " " in prose else 0
    letters = len(re.findall(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])", prose)) + answer.count("\\pi")
    measured = {"answer": answer, "characters": characters, "numbers": numbers, "letters": letters, "words": words}
    if (
        characters > MAX_ANSWER_CHARACTERS
        or numbers > MAX_ANSWER_NUMBERS
        or numbers + letters >= 2 * MAX_ANSWER_NUMBERS
        or words > MAX_ANSWER_WORDS
        or re.search(rf"\\[cl]?dots\b|\.\.\.|…|\d{{{MAX_DIGITS + 1},}}", answer)
    ):
        return measured
    return None


def _unwrapped(answer: str | None) -> str:
    r"""The answer without `\text{}`, dollars, brackets and a full stop."""
    text = answer or ""
    for _ in range(2):  # \boxed{\text{…}}
        text = re.sub(r"\\(?:text|math|boxed)\w*\s*\{([^{}]*)\}", r"\1", text)
    return text.strip(" $().,!*{}\n\t")


RULES = (multiple_choice, true_false, proof, no_answer, unverifiable, sub_questions, figure, non_english, long_answer)
