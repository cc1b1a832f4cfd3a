"""Keep one row per problem: exact, near and reworded copies (`copies`)."""
