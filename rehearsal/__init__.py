"""Rehearse a recipe: every mechanism that it names happens once, small, on this machine."""
