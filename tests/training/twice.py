"""What `srun --nodes=2 --kill-on-bad-exit` does, on one machine: run a command twice, and end both when one fails."""

import subprocess
import sys
import time

both = [subprocess.Popen(sys.argv[1:]) for _ in range(2)]
while any(process.poll() is None for process in both) and not any(process.poll() for process in both):
    time.sleep(0.1)
for process in both:
    process.terminate()
sys.exit(max(abs(process.wait()) for process in both))
