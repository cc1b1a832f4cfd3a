"""Start the process groups of steps: here, on several machines, through SLURM."""
