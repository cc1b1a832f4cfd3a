"""What the rest stands on: settings, recipes, artifacts, tracking, inference engines, child processes."""
