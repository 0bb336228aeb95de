"""Takes complete access units out of aiortc before it decodes them.

aiortc 1.16 has no public way to receive encoded frames (its issue 984 asks for one): ``RTCRtpReceiver`` puts
``(codec, JitterFrame)`` into a queue that a decoder thread reads. We replace that one queue of that one
receiver, so nothing else in the process changes. Everything that depends on aiortc's inside is in this file,
and a contract test runs against the installed release.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from aiortc import RTCRtpReceiver
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcrtpparameters import RTCRtpCodecParameters

from base.errors import MissingDependency

_QUEUE = "_RTCRtpReceiver__decoder_queue"
_DECODER_ERROR = "_RTCRtpReceiver__decoder_error"

Task = tuple[RTCRtpCodecParameters, JitterFrame] | None


class EncodedQueue:
    """Stands where the receiver's decoder queue was: ``put`` hands units on, ``get`` waits for the end."""

    def __init__(self, deliver: Callable[[JitterFrame], None]) -> None:
        self._deliver = deliver
        self._ended = threading.Event()

    def put(self, task: Task) -> None:
        """Called by the receiver on the event loop's thread: each complete frame, then None at the end."""
        if task is None:
            self._ended.set()
        else:
            self._deliver(task[1])

    def get(self) -> None:
        """Called by the decoder thread: sleeps until the end and then ends that thread."""
        self._ended.wait()


def take_encoded(receiver: RTCRtpReceiver, deliver: Callable[[JitterFrame], None]) -> None:
    """Make ``receiver`` hand its encoded frames to ``deliver``; call before it starts to receive.

    Raises:
        MissingDependency: this release of aiortc is built differently.
    """
    if not hasattr(receiver, _QUEUE) or not hasattr(receiver, _DECODER_ERROR):
        message = "aiortc: RTCRtpReceiver has another inside than release 1.16's, which is needed"
        raise MissingDependency(message)
    setattr(receiver, _QUEUE, EncodedQueue(deliver))


def ask_for_key_frame(receiver: RTCRtpReceiver) -> None:
    """Send a picture loss indication with the next packet, as aiortc does when its decoder stumbles."""
    getattr(receiver, _DECODER_ERROR).set()
