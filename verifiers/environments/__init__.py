"""Environments of other authors: single-turn ones of the `verifiers` library, each a domain
(docs/howto/environments.md)."""
