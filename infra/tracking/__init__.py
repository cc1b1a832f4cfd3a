"""Tracking of runs: local journals, and their mirror in MLflow."""
