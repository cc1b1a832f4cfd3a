"""From raw rows to problems worth training on: pure functions from table to (kept, rejected)."""
