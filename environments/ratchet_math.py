from ratchet.verifiers.adapters.prime_rl import taskset

RatchetMath = taskset("math")
__all__ = ["RatchetMath"]
