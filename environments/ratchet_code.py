from ratchet.verifiers.adapters.prime_rl import taskset

RatchetCode = taskset("code")
__all__ = ["RatchetCode"]
