"""Infrastructure: settings, recipes, artifacts, tracking, inference engines, child processes."""
