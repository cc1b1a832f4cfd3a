"""Curation of environments of the verifiers library (`verifiers/environments/generation.py` writes their rows): rules
only, because the prompts of an environment share most of their words."""

from ratchet.data_curation.domains import CurationPlan
from ratchet.data_curation.readers.columns import Format, RawRow
from ratchet.data_curation.readers.plain_formats import plain_any
from ratchet.data_curation.readers.raw_files import Malformed, Row
from ratchet.data_curation.rules.evidence import no_answer
from ratchet.data_curation.split import to_json


def environment(row: RawRow) -> Row:
    """Read a row with its messages, which are joined to one user turn, a system prompt first."""
    messages, rest = row.take_structure("messages"), row.take_structure("row")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise Malformed("messages", "no list of messages")
    if not isinstance(rest, dict):
        raise Malformed("row", "no object")
    roles = [message.get("role") for message in messages]
    if roles not in (["user"], ["system", "user"]):
        raise Malformed("messages", f"roles {roles}: only a system prompt and one question are asked")
    texts = [message.get("content") for message in messages]
    if not all(isinstance(text, str) for text in texts):
        raise Malformed("messages", "content that is no text")
    row |= {"messages": messages, "row": rest}
    answer = rest.get("answer")
    return {
        "prompt": "\n\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip()),
        "answer": (answer if isinstance(answer, str) else to_json(answer)) or None,
    }


ENVIRONMENTS = CurationPlan(
    plain=plain_any,
    formats=(Format("environment", lambda c: c >= {"environment", "messages", "row"}, environment),),
    rules=(no_answer,),
    steps=("rules", "difficulty"),
)
