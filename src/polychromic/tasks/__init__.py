"""The tasks that come with the package; each is an example of what `polychromic.register` takes."""

from polychromic.tasks import grids, gymnasium, triangle

__all__ = ["grids", "gymnasium", "triangle"]
