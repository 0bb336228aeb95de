"""The test vectors, opened by a reader that was written from docs/format.md alone."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codec.spec_reader import Identity, Result, len32, read

VECTORS = Path(__file__).parent.parent / "vectors"
NAMES = sorted(path.stem for path in VECTORS.glob("*.vec"))
REFUSALS = ("no match", "format error")
DAMAGED = {
    "broken_chunk", "clip_end", "clip_front", "critical_record", "damaged_key_meta", "lost_chunk0",
    "flip_chunk", "flip_header", "flip_picture", "lost_key",
    "lost_unit", "newer_version", "regions_chunk_lost", "regions_flip", "removed_meta", "resume", "stripped",
    "stripped_one",
}  # fmt: skip
"""Vectors whose sealed layer lacks something; the other tampering is for the signature to find."""


def _load(name: str) -> tuple[dict[str, str], list[Identity], list[int], bytes]:
    head, body = (VECTORS / f"{name}.vec").read_text("ascii").split("\n\n", 1)
    lines = [(key, value) for key, _, value in (line.partition(": ") for line in head.splitlines())]
    keys = [value.split() for key, value in lines if key == "identity"]
    identities = [Identity(int(suite), bytes.fromhex(private)) for suite, private in keys]
    fields = dict(lines)
    return fields, identities, [int(size) for size in fields["units"].split()], base64.b64decode(body)


def _packets(result: Result) -> tuple[int, str]:
    return len(result.packets), hashlib.sha256(b"".join(map(len32, result.packets))).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_made_from_the_document_opens_what_the_vector_says(name: str) -> None:
    fields, identities, sizes, data = _load(name)
    regions = [int(each) for each in fields["regions"].split()] if "regions" in fields else None
    result = read(data, sizes, identities, regions)
    if fields["expect"] in REFUSALS:
        assert result.outcome == fields["expect"]
        assert not result.packets
        return
    assert result.outcome == ("damaged" if name in DAMAGED else "success"), result.problems
    assert _packets(result) == (int(fields["packets"]), fields["sha256"])


def test_the_streams_of_the_sealed_layer_are_those_of_its_stream_records() -> None:
    _, identities, sizes, data = _load("intact")
    assert read(data, sizes, identities).streams == ["h264", "pcm_s16le"] * 3


@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, 5000), change=st.integers(1, 255))
def test_a_changed_byte_is_reported_and_never_breaks_the_reader(at: int, change: int) -> None:
    _, identities, sizes, data = _load("intact")
    broken = bytearray(data)
    broken[at] ^= change
    assert _packets(read(bytes(broken), sizes, identities))[0] <= 24
