"""Curation of instruction following. No rule reads the statement."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers.columns import Format
from ratchet.data_curation.readers.instruction_formats import STATEMENTS, ifeval, plain_instructions, rlvr
from ratchet.data_curation.rules.evidence import no_answer

INSTRUCTIONS = CurationPlan(
    plain=plain_instructions,
    formats=(
        Format("ifeval", lambda c: c >= {"instruction_id_list", "kwargs"} and bool(c & {*STATEMENTS}), ifeval),
        Format("rlvr-ifeval", lambda c: "ground_truth" in c and bool(c & {*STATEMENTS}), rlvr),
    ),
    rules=(no_answer,),
)
