"""The flows that a person triggers."""
