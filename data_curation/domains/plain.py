"""The default plan of domains, with rules that read the statement only."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers.plain_formats import plain_any
from ratchet.data_curation.rules.evidence import no_answer
from ratchet.data_curation.rules.language import non_english

PLAIN = CurationPlan(plain=plain_any, rules=(no_answer, non_english))
