"""A lock for FLINT's precision, which all threads share."""

import threading

PRECISION = threading.RLock()
"""Held while the precision is set: bounds hold at any precision, but decisions depend on it."""
