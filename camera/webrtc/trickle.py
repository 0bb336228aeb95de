"""Candidates that a client sends after its offer (RFC 8838, RFC 8840), bounded."""

from __future__ import annotations

from aiortc import RTCPeerConnection
from aiortc import sdp as aiortc_sdp

from camera.webrtc.offer import MAX_CANDIDATES, Fragment, Offer


class Trickle:
    """The trickled candidates of one session."""

    def __init__(self, offer: Offer) -> None:
        self._ufrag = offer.ufrag
        self._bundle_mid = offer.bundle_mid
        self._num_candidates = 0

    def is_restart(self, fragment: Fragment) -> bool:
        """Whether the fragment belongs to other ICE credentials than the offer's."""
        return fragment.ufrag not in ("", self._ufrag)

    async def add(self, peer: RTCPeerConnection, fragment: Fragment) -> int:
        """Add candidates, as far as they can be used and are not too many; returns how many."""
        taken = 0
        free = MAX_CANDIDATES - self._num_candidates
        self._num_candidates += len(fragment.candidates)
        for text in fragment.candidates[: max(0, free)]:
            try:
                parsed = aiortc_sdp.candidate_from_sdp(text)
            except (ValueError, AssertionError, IndexError):
                continue
            parsed.sdpMid = self._bundle_mid  # all sections share the first one's transport
            try:
                await peer.addIceCandidate(parsed)
            except ValueError:
                continue
            taken += 1
        return taken
