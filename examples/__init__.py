"""Worlds to try Ratchet in: what a recipe generates where no data is given."""
