"""Verdicts on math answers: is one equal to the reference answer?"""
