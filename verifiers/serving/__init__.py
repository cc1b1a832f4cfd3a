"""Judge many responses at once: on this machine, or on reward servers."""
