"""Every maximum that the readers enforce, in one place (docs/format.md, section 10)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds checked before memory is spent. Raise them only for files that you trust."""

    max_unit_bytes: int = 32 * 1024 * 1024  # one access unit with all its SEI
    max_nals_per_unit: int = 1024
    max_sei_messages_per_unit: int = 512
    max_chunks_per_unit: int = 255
    max_header_bytes: int = 256 * 1024  # HEADER record body
    max_stanzas: int = 64
    max_stanza_bytes: int = 4096
    max_frames_per_segment: int = 10_000
    max_segment_bytes: int = 512 * 1024 * 1024  # all access units of one segment together
    max_records_per_segment: int = 200_000  # records of the sealed byte stream
    max_packet_bytes: int = 64 * 1024 * 1024  # one PACKET record body
    max_streams: int = 32  # STREAM records of one segment
    max_extradata_bytes: int = 64 * 1024
    max_extensions: int = 64  # extension records of one HEADER or STREAM
    max_parameter_sets: int = 64  # SPS or PPS in one decoder configuration
    max_known_streams: int = 1024  # stream ids that a checker remembers


DEFAULT_LIMITS = Limits()

LIVE_UNIT_CAP_BYTES = 160_000
"""Largest access unit (video + SEI) on live links: 128 RTP packets, the history that NACK can repair."""

FILE_UNIT_CAP_BYTES = 8 * 1024 * 1024
"""Largest access unit in files, for lossless sealed layers."""
