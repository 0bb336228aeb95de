"""What the page is told about a frame that was detected on edge workers."""

from __future__ import annotations

from analytics.pool import PoolResult, TileOutcome, WorkerState
from camera.detections import MAX_ROWS, PictureDetections

Json = dict[str, object]


def picture_of(result: PoolResult) -> PictureDetections:
    """The detections as if a detector had posted them; the strongest 256."""
    rows = sorted(result.detections.to_json(), key=lambda row: -row["score"])[:MAX_ROWS]
    return PictureDetections(*result.frame_wh, tuple(rows))


def tiles_message(result: PoolResult, workers: tuple[WorkerState, ...]) -> Json:
    """The event ``tiles``: where the tiles lay, who answered, how long it took."""
    width, height = result.frame_wh
    return {
        "width": width,
        "height": height,
        "latency_ms": round(1000 * result.latency_s, 1),
        "sent_bytes": result.sent_bytes,
        "tiles": [_tile(outcome) for outcome in result.outcomes],
        "workers": [
            {
                "name": worker.name,
                "state": worker.state,
                "load": round(worker.load, 3),
                "latency_ms": None if worker.latency_s is None else round(1000 * worker.latency_s, 1),
                "share": round(result.seen_share.get(worker.name, 0.0), 4),
                "error": worker.error,
            }
            for worker in workers
        ],
    }


def _tile(outcome: TileOutcome) -> Json:
    return {
        "box": list(outcome.tile.xyxy),
        "worker": outcome.worker,
        "owner": outcome.tile.worker,
        "kind": outcome.kind,
        "look": outcome.is_look,
        "ms": round(1000 * outcome.latency_s, 1),
    }
