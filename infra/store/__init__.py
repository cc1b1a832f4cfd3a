"""What a home holds: artifacts, files that are whole or not there, lineage, decisions."""
