"""Settings of every test run."""
from hypothesis import settings

# A shared machine may stall any example: how long one takes says nothing about the code.
settings.register_profile("pylite", deadline=None)
settings.load_profile("pylite")
