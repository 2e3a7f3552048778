"""A module beside the gallery, in which environments keep what they should not."""

ticks = 0
hidden = [0]
