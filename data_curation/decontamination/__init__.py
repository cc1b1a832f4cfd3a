"""Find benchmark items in rows by shared text (`overlaps`), in problems and in any files."""
