"""What happened in runs: local journals, and their mirror in MLflow."""
