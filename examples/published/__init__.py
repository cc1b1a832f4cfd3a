"""Samples of the data sets and benchmarks that recipes name, in their published layouts, and a Hub that serves them."""
