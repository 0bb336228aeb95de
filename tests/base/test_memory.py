from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
import resource
import numpy as np
from base.memory import keep_freed_memory
{call}
for _ in range(3):
    np.ones(3_000_000, np.uint8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    np.ones(3_000_000, np.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _page_faults(call: str) -> int:
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"} if not call else dict(os.environ)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(call=call)], capture_output=True, check=True, env=environment
    )
    return int(done.stdout)


def test_picture_sized_memory_is_reused_without_new_pages() -> None:
    # 20 arrays of 3 MB are 14,648 pages of 4 kB when each is fresh.
    assert _page_faults("") > 5_000
    assert _page_faults("keep_freed_memory()") < 500
