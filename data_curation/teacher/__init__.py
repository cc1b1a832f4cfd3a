"""A teacher's answers (`attempts`), and the decisions based on them: votes, difficulty, length."""
