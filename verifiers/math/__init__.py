"""Is this answer equal to the reference answer?"""
