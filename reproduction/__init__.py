"""The paper's tables and this project's studies: plans (data), cells, results files, intervals, pages.

`python -m reproduction WHAT`, in a clone of the repository.
"""
