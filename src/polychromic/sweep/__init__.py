"""Many runs: tasks × methods × seeds, on one machine, on Ray or on Slurm."""
