"""The store of a home: artifacts, files that are complete or absent, lineage, decisions."""
