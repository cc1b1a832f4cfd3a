"""FLINT's precision is one for all threads."""

import threading

PRECISION = threading.RLock()
"""Held while it is set: bounds hold at any precision, but decisions depend on it."""
