"""Curation of instruction following. No rule reads the statement."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers.columns import Format, has
from ratchet.data_curation.readers.instruction_formats import STATEMENTS, ifeval, plain_instructions, rlvr
from ratchet.data_curation.rules.evidence import no_answer


def _statement(columns: set[str]) -> bool:
    return not columns.isdisjoint(STATEMENTS)


INSTRUCTIONS = CurationPlan(
    plain=plain_instructions,
    formats=(
        Format("ifeval", lambda c: has(c, "instruction_id_list", "kwargs") and _statement(c), ifeval),
        Format("rlvr-ifeval", lambda c: has(c, "ground_truth") and _statement(c), rlvr),
    ),
    rules=(no_answer,),
)
