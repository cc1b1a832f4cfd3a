from ratchet.verifiers.adapters.prime_rl import taskset

RatchetScience = taskset("science")
__all__ = ["RatchetScience"]
