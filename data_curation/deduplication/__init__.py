"""One problem, one row: exact, near and reworded copies (`copies`)."""
