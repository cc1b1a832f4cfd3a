"""Ratchet's verdicts as the rewards of other trainers, a module each: docs/howto/other_trainers.md.

No module imports its trainer before a reward is asked for.
"""
