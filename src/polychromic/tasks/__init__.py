"""The tasks that come with the package; each is an example of what `register` takes."""
