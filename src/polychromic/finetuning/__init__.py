"""One iteration and the loop around it: config, rollouts, collect, advantages, update, loop, run."""
