"""The settings of curation, as a recipe has them."""
