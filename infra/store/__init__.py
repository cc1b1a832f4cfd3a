"""The store of a home: artifacts, files that are whole or not there, lineage, decisions."""
