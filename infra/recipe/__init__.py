"""Recipes: what a pipeline makes, as typed data."""

from infra.recipe.load import load_recipe
from infra.recipe.model import Recipe

__all__ = ["Recipe", "load_recipe"]
