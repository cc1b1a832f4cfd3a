"""Inference engines behind one protocol: who asks does not know which engine answers."""
