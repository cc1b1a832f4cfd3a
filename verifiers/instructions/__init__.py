"""Verdicts on instructions that a program can check: the 25 kinds of IFEval (arXiv 2311.07911) and the 58 of IFBench
(arXiv 2507.02833): docs/reference/instructions.md."""
