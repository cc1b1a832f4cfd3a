"""Is this response right? Math answers, code under tests, and the pool that judges many at once."""
