"""One hypothesis profile: the same examples everywhere, so that a failure is everybody's failure."""

import os

from hypothesis import settings

settings.register_profile("default", deadline=None, derandomize=True, max_examples=100)
settings.register_profile("thorough", deadline=None, max_examples=3000)
settings.load_profile(os.environ.get("OVERT_HYPOTHESIS", "default"))

pytest_plugins = ["pytester", "chromium"]
