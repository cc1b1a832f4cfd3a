"""A teacher's answers (`attempts`), and what they decide: votes, difficulty, length."""
