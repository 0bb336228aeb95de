"""``veilcam detect``."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from veilcam.cli.options import ForceFlag, JsonFlag, examples
from veilcam.cli.output import Output

if TYPE_CHECKING:
    from analytics.detector import Detector
    from analytics.stream import FrameStream
    from veilcam.cli.detect_listeners import Listeners

TOKEN_VARIABLE = "VEILCAM_TOKEN"  # noqa: S105  # the variable's name, not a token


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    epilog = examples(
        "veilcam detect out.mp4",
        "veilcam detect out.mp4 --detector hog --annotate boxes.mp4 -o detections.jsonl",
        "veilcam detect http://127.0.0.1:8080/whep --seconds 10 --label person",
        "veilcam detect http://127.0.0.1:8080/whep --report > /dev/null",
        "veilcam detect http://127.0.0.1:8080/whep --events mqtt://broker/veilcam --events events.jsonl",
    )
    app.command("detect", short_help="Find objects in a protected video, without a key.", epilog=epilog)(
        detect
    )


def detect(
    source: Annotated[str, typer.Argument(metavar="IN|URL", help="Protected video, or a camera's WHEP URL.")],
    *,
    detector: Annotated[
        str, typer.Option(help="yolox, yolox-tiny, yolox-s, yolox:PATH, ultralytics:NAME or hog.")
    ] = "yolox",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="JSON Lines go here.")
    ] = None,
    annotate: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Also write a video with the boxes drawn in.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Report this class only; repeat for several.")
    ] = None,
    min_score: Annotated[float, typer.Option(min=0.0, max=1.0, help="Leave out weaker detections.")] = 0.3,
    every: Annotated[int, typer.Option(min=1, help="Look at every N-th picture only.")] = 1,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Stop after so long (live streams).")] = None,
    report: Annotated[
        bool, typer.Option("--report", help="Send the boxes to the camera: its page draws them.")
    ] = False,
    events: Annotated[
        list[str] | None,
        typer.Option(metavar="TARGET", help="Events to mqtt[s]://..., http(s)://... or a file; repeat."),
    ] = None,
    camera_name: Annotated[str, typer.Option(metavar="NAME", help="The camera's name in events.")] = "camera",
    force: ForceFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Detect objects in a protected video with an unmodified detector; needs no key.

    One JSON line per picture goes to standard output, or to the file of --out. With --json a summary follows
    as the last line. A token for the URL is taken from VEILCAM_TOKEN, one for a webhook or the password of a
    broker from VEILCAM_EVENTS_TOKEN. An event is an object that appears, stays or goes.
    """
    from analytics.detector import DetectorConfig, load_detector
    from analytics.stream import open_frames
    from veilcam.cli.detect_listeners import Listeners
    from veilcam.cli.paths import existing_file, new_file

    is_live = source.startswith(("http://", "https://"))
    if not is_live:
        existing_file(Path(source), "IN")
    for path in filter(None, (out, annotate)):
        new_file(path, force=force)
    output = Output(as_json)
    with output.progress("weights") as advance:
        model = load_detector(
            detector, DetectorConfig(min_score=min_score), progress=lambda done, total: advance(done / total)
        )
    token = os.environ.get(TOKEN_VARIABLE) if is_live else None
    listeners = Listeners(source if report else None, events or (), camera_name, token)
    stream = open_frames(source, every=every, token=token)
    with _closing_after(seconds, stream), _lines_to(out) as lines, listeners:
        num_frames, found = _run(
            stream,
            model,
            labels=label,
            annotate=annotate,
            lines=lines,
            output=output,
            listeners=listeners,
        )
    summary = {
        "ok": True,
        "source": source,
        "detector": model.name,
        "frames": num_frames,
        "dropped": stream.num_dropped,
        "detections": dict(found),
        "annotated": str(annotate) if annotate else None,
    }
    if as_json:
        print(json.dumps(summary))
    else:
        counts = ", ".join(f"{name} {count}" for name, count in found.most_common()) or "nothing"
        print(f"{num_frames} pictures, {model.name}: {counts}", file=sys.stderr)


def _run(
    stream: FrameStream,
    model: Detector,
    *,
    labels: list[str] | None,
    annotate: Path | None,
    lines: TextIO,
    output: Output,
    listeners: Listeners,
) -> tuple[int, Counter[str]]:
    from analytics.detect import DetectProgress, run
    from veilcam.cli.signals import ending_in_order

    stop = threading.Event()
    found: Counter[str] = Counter()
    num_frames = 0
    with output.progress("detecting") as advance:

        def on_progress(progress: DetectProgress) -> None:
            if progress.total_frames:
                advance((progress.frame + 1) / progress.total_frames)

        def end() -> None:
            stop.set()
            threading.Thread(target=stream.close, daemon=True).start()  # wakes a live stream that waits

        with ending_in_order(end):
            for result in run(
                stream, model, labels=labels or None, annotate=annotate, stop=stop, on_progress=on_progress
            ):
                num_frames += 1
                found.update(row["label"] for row in result["detections"])
                print(json.dumps(result), file=lines, flush=True)
                listeners.take(result)
    return num_frames, found


@contextmanager
def _closing_after(seconds: float | None, stream: FrameStream) -> Iterator[None]:
    timer = threading.Timer(seconds, stream.close) if seconds else None
    try:
        if timer:
            timer.start()
        yield
    finally:
        if timer:
            timer.cancel()


@contextmanager
def _lines_to(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a text file that appears when complete."""
    if path is None:
        yield sys.stdout
        return
    from io import TextIOWrapper

    from base.files import atomic_file

    with atomic_file(path) as file:
        text = TextIOWrapper(file, encoding="utf-8", write_through=True)
        try:
            yield text
        finally:
            text.detach()
