"""What a person triggers: the flows and the command line."""
