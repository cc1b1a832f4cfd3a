"""The settings of curation in a recipe."""
