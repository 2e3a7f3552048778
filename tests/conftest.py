"""Settings for all tests."""

from hypothesis import settings

# A busy machine must not turn a slow example into a failure.
settings.register_profile("polychromic", deadline=None)
settings.load_profile("polychromic")
