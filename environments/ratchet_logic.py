from ratchet.verifiers.adapters.prime_rl import taskset

RatchetLogic = taskset("logic")
__all__ = ["RatchetLogic"]
