"""The client side of the edge pool: connections, health, estimates, deadlines, retries.

workers.py   EdgeWorkers: the process's workers (worker.py one of them, breaker.py when it is left alone,
             estimate.py how fast it is)
pool.py      Pool: one camera's frames through plan, tiles.py, dispatch.py and merge
connect.py   the protocols: transport.py is the seam, answer.py checks what comes back
"""

from __future__ import annotations

from analytics.pool.address import WorkerAddress
from analytics.pool.options import PoolOptions
from analytics.pool.pool import Pool, Prepared
from analytics.pool.result import PoolResult, TileOutcome, WorkerState
from analytics.pool.workers import EdgeWorkers

__all__ = [
    "EdgeWorkers",
    "Pool",
    "PoolOptions",
    "PoolResult",
    "Prepared",
    "TileOutcome",
    "WorkerAddress",
    "WorkerState",
]
