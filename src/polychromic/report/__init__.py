"""Reports: runs and evaluations on one page that opens offline, tables, episodes to watch."""
