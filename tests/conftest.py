"""The same examples in every run; to look for new ones: pytest --hypothesis-profile=default."""

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
