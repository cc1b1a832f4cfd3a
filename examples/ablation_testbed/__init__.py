"""Synthetic tasks in which the effects of a training recipe show within minutes; `recipes/ablations` trains on them."""
