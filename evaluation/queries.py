"""Where each number of a report comes from: Python that recomputes it from the stored rows, printed beside it.

The text below is shown to the reader and run by the tests. `rows` are all responses of one benchmark in one
evaluation's generations.parquet, `graded` those with a verdict of the model's own; `q` has one row a question: n
graded responses, c of them right; `asked` the same questions' rows of questions.parquet. `k` is the column's, or the
row's; `before` and `after` are directories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

PREAMBLE = """import pandas
from math import comb
from pathlib import Path
from ratchet.evaluation.creativity import creativity_index, read_texts
from ratchet.evaluation.comparison import sign_flip_p_value
from ratchet.evaluation.pass_at_k import majority_at_k, pass_at_k_by_subsampling, pass_at_k_table  # seeds are fixed
from ratchet.evaluation.regimes import regime
from ratchet.evaluation.rating import map_rating, rating_in_contests, read_standings
from ratchet.evaluation.statistics import bootstrap_over_questions, share_interval, student_interval
from ratchet.evaluation.statistics import standard_error_across_clusters
from ratchet.evaluation.topics import by_topic

def load(directory, benchmark):
    rows, asked = (pandas.read_parquet(f"{directory}/{name}.parquet") for name in ("generations", "questions"))
    rows, asked = rows[rows.benchmark == benchmark], asked[asked.benchmark == benchmark].set_index("problem_id")
    graded = rows[rows.outcome != "infra_error"].assign(right=lambda r: r.outcome == "passed")
    q = graded.groupby("problem_id", sort=False).right.agg(c="sum", n="count")
    return rows, graded, q, asked.reindex(q.index)

def score(by_question):  # and its standard error across questions
    return by_question.mean(), by_question.sem()

def paired(before, after, benchmark):
    one, other = (load(directory, benchmark)[2] for directory in (before, after))
    return one.join(other, how="inner", lsuffix="_before", rsuffix="_after")

def clusters_of(asked):  # a question without one is one of its own
    return asked.cluster.where(asked.cluster.notna(), asked.index + " alone")
"""

PASS_AT_K = "score(1 - q[q.n >= k].apply(lambda q: comb(q.n - q.c, k) / comb(q.n, k), axis=1))"
MAJORITY = """votes = [[(None if pandas.isna(a) else int(a), a == 0) for a in g.sort_values("sample").answer_class]
         for _, g in graded.groupby("problem_id", sort=False)]
score(pandas.Series([majority_at_k(v, k) for v in votes]).dropna())"""

SCORES = {
    "pass@k": PASS_AT_K,
    "maj@k": MAJORITY,
    "at fixed questions": "(q.c / q.n * (1 - q.c / q.n) / (q.n - 1)).sum() ** 0.5 / len(q)",
    "truncated": '(graded.finish_reason == "length").mean()',
    "no answer": '((graded.outcome == "unparseable") & (graded.finish_reason != "length")).mean()',
    "accuracy if completed": 'graded[graded.finish_reason == "stop"].right.mean()',
    "infra errors": '(rows.outcome == "infra_error").sum()',
}
ERRORS = {
    "avg@n": "(q.c / q.n).mean()",
    "95 % interval": "share_interval(*score(q.c / q.n), len(q))",
    "across questions": "(q.c / q.n).sem()",
    "at fixed questions": SCORES["at fixed questions"],
    "across runs": 'graded.groupby("sample").right.mean().sem()',
    "bootstrap over questions": "bootstrap_over_questions(q.c / q.n)",
}
ESTIMATORS = {
    "pass@k": PASS_AT_K,
    "by subsampling": "pass_at_k_by_subsampling(q.n, q.c, k)",
    "upper bound": "1 - q[q.n >= 2].apply(lambda q: comb(q.n - q.c, 2) / comb(q.n, 2), axis=1).mean() ** (k / 2)",
    "pass^k": "score(q[q.n >= k].apply(lambda q: comb(q.c, k) / comb(q.n, k), axis=1))",
    "maj@k": MAJORITY,
}
_BINS = "[-1, 1e-9, .125, .25, .375, .5, .625, .75, .875, 1, 2]"
SOLVE_RATES = {"questions in each bar": f"pandas.cut(q.c / q.n, {_BINS}, right=False).value_counts(sort=False)"}
LENGTHS = {"correct and wrong": 'graded.groupby("right").tokens.describe(percentiles=[0.5, 0.9, 0.99])'}
LENGTH_BARS = {
    "responses in each bar": "bars = [i * (graded.tokens.max() + 1) / 24 for i in range(25)]\n"
    "pandas.crosstab(pandas.cut(graded.tokens, bars, right=False), graded.right)"
}
DIFFERENCES = {
    "difference": "q = paired(before, after, benchmark)\n"
    "at_k = [pass_at_k_table(q[f'n_{when}'], q[f'c_{when}'])[:, k - 1] for when in ('before', 'after')]\n"
    "d = pandas.Series(at_k[1] - at_k[0], q.index).dropna()\n"
    "clusters = clusters_of(load(after, benchmark)[3])[d.index]\n"
    "d.mean(), standard_error_across_clusters(d, clusters)",
    "95 % interval": "student_interval(d.mean(), standard_error_across_clusters(d, clusters), clusters.nunique())",
    "p": "sign_flip_p_value(d.groupby(clusters, sort=False).sum())",
    "newly solved": "((q.c_before == 0) & (q.c_after > 0)).sum()",
    "newly lost": "((q.c_before > 0) & (q.c_after == 0)).sum()",
}
CHANGES = {"one line each": "q.c / q.n  # of the first and of the last evaluation"}
REGIMES = {
    "regime of three checkpoints, their q being q1, q2 and q3": "regime((q1.n, q1.c), (q2.n, q2.c), (q3.n, q3.c), k)"
}
CLUSTERS = {"across clusters": "standard_error_across_clusters(q.c / q.n, clusters_of(asked))"}
TOPICS = {"accuracy, adjusted accuracy": "by_topic(dict(q.c / q.n), dict(asked.topics), dict(asked.difficulty))"}
RATING = {
    "rating": "rated = asked.rating.dropna()\nmap_rating(rated, (q.c / q.n)[rated.index])",
}
CONTESTS = {"rating in contests": "rating_in_contests(Path(directory), benchmark, read_standings(Path(standings)))"}
CONTAMINATION = {
    "flagged": "asked.contaminated.sum()",
    "pass@1, all": "score(q.c / q.n)",
    "pass@1, without the flagged": "score((q.c / q.n)[~asked.contaminated.astype(bool)])",
}
CREATIVITY = {
    "creativity index": "index = creativity_index(list(rows.text), [t for f in corpus for t in read_texts(Path(f))])\n"
    "score(pandas.Series(index, rows.problem_id).groupby(level=0, sort=False).mean())",
}


def shown(queries: Mapping[str, str]) -> str:
    return "\n".join(f"# {name}\n{code}" for name, code in queries.items())


def loading(directories: Mapping[str, Path], benchmarks: Sequence[str]) -> str:
    """What comes before every query: one line for each evaluation and benchmark, of which the reader runs one."""
    lines = [
        f"rows, graded, q, asked = load({str(directory)!r}, {benchmark!r})  # {_comment(label)}"
        for label, directory in directories.items()
        for benchmark in benchmarks
    ]
    return "\n".join([PREAMBLE, *lines])


def _comment(text: str) -> str:
    """A label may be anything; here it must not end the comment."""
    return re.sub(r"[^A-Za-z0-9 ._:/-]", "?", text)
