"""The camera's pool on real workers, by every way that they offer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analytics.pool import EdgeWorkers, Pool, PoolOptions, WorkerAddress
from analytics.worker.options import TlsFiles
from base.access import AccessToken
from tests.analytics.serving_worker import serving_worker
from tests.support.edge_worker import frame_of

TOKEN = "correct-horse-battery"


@pytest.mark.parametrize("scheme", ["http", "grpc", "https", "grpcs"])
async def test_the_pool_and_a_worker_understand_each_other(scheme: str, certificates: Path) -> None:
    tls, shown = None, dict[str, Any]()
    if scheme.endswith("s"):
        tls = TlsFiles(certificates / "worker.pem", certificates / "worker.key", certificates / "root.pem")
        shown = {
            "ca_file": certificates / "root.pem",
            "cert_file": certificates / "client.pem",
            "key_file": certificates / "client.key",
        }
    async with serving_worker(tls=tls, token=AccessToken(TOKEN)) as worker:
        place = worker.url.partition("://")[2] if scheme.startswith("http") else worker.grpc_address
        address = WorkerAddress(f"{scheme}://{place}", "edge", token=TOKEN, **shown)
        workers = EdgeWorkers([address])
        pool = Pool(workers, PoolOptions(deadline_s=20))
        await pool.start(wait_s=20)
        try:
            assert workers.class_names == ("class_0", "class_1")
            for step in range(3):
                result = await pool.detect(frame_of([(64, 32, 128, 96)], (256, 128)), step)
                assert result.failed == result.late == result.missing == 0
                assert len(result.detections) > 0
        finally:
            await pool.close()
            await workers.close()
