"""What do people see? Runs and evaluations gathered, tables, one page that opens offline, episodes to watch."""
