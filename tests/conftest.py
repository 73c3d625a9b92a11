"""One thread per test process: small tensors gain nothing from two, and processes that share cores lose much."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
