from ratchet.verifiers.adapters.prime_rl import taskset

RatchetInstructions = taskset("instructions")
__all__ = ["RatchetInstructions"]
