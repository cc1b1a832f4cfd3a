"""Recipes: what a pipeline makes, as typed data."""

from infra.recipe.model import Recipe

__all__ = ["Recipe"]
