"""Does this program pass the tests of its problem?"""
