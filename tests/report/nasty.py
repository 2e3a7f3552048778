"""A mission that would be a program if it were not text."""

NASTY = '</script><img src=x onerror="window.hacked = true"> & <b>go</b>'
