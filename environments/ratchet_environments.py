"""Problems of every domain, each judged by its own."""

from ratchet.verifiers.adapters.prime_rl import taskset

RatchetEnvironments = taskset()
__all__ = ["RatchetEnvironments"]
