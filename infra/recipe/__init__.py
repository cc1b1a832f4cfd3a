"""Recipes: typed data that describe what a pipeline makes."""

from ratchet.infra.recipe.load import load_recipe
from ratchet.infra.recipe.recipe import Recipe

__all__ = ["Recipe", "load_recipe"]
