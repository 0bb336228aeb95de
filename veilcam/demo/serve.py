"""Keep the live page up after the demonstration."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from veilcam.demo.commands import Commands, DemoError
from veilcam.demo.folder import DemoFolder
from veilcam.demo.live import running_camera
from veilcam.demo.steps import Stage

if TYPE_CHECKING:
    from veilcam.cli.output import Output

_POLL_S = 0.5


def serve_demo(folder: DemoFolder, source: Path, listen: str, output: Output) -> None:
    """Run the camera on ``listen`` until Ctrl-C or SIGTERM.

    Raises:
        DemoError: the camera ended by itself.
    """
    from veilcam.cli.signals import ending_in_order

    stop = threading.Event()
    # The camera's key needs no passphrase.
    stage = Stage(source.resolve(), folder, Commands(folder.root, "", output.say))
    with ending_in_order(stop.set), running_camera(stage, listen) as camera:
        output.say(f"\nlive: open {camera.page_url} in a browser (Ctrl-C ends it)")
        output.event({"event": "serving", "url": camera.page_url, "whep": camera.whep_url})
        while not stop.wait(_POLL_S):
            if camera.process.poll() is not None:
                raise DemoError(f"camera run: ended with status {camera.process.returncode}")
    output.say("stopped; the recordings are complete")
