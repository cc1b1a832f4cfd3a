"""One task per step: resolve inputs by reference, call the domain, store the artifact, record the lineage."""
