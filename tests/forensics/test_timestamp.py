from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import AuthenticationFailed, FormatError, PeerError, UsageError
from forensics.timestamp import Authority, check, check_recording, stamp_recording
from forensics.verify_file import verify
from tests.forensics.damage import flip_signature, joined
from tests.forensics.recordings import START_US, Recording, seal_copy, write_units
from tests.support.authority import make_authority, openssl, serving_stamps

pytest.importorskip("rfc3161_client", reason="needs the timestamp extra")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tsa") / "authority"
    make_authority(folder)
    return folder


def test_a_stamp_verifies_here_and_in_openssl(authority: Path, tmp_path: Path) -> None:
    with serving_stamps(authority) as url:
        stamp = Authority(url).stamp(b"the sums")
    found = check(stamp, b"the sums", authority / "root.pem")
    assert found.authority == "test authority"
    assert abs(found.time_us / 1e6 - time.time()) < 60
    (tmp_path / "data").write_bytes(b"the sums")
    (tmp_path / "stamp").write_bytes(stamp)
    arguments = ("-data", tmp_path / "data", "-in", tmp_path / "stamp", "-CAfile", authority / "root.pem")
    openssl("ts", "-verify", *arguments, "-untrusted", authority / "tsa.pem")


def test_a_stamp_over_something_else_by_somebody_else_or_changed_does_not_verify(
    authority: Path, tmp_path: Path
) -> None:
    with serving_stamps(authority) as url:
        stamp = Authority(url).stamp(b"the sums")
    with pytest.raises(AuthenticationFailed):
        check(stamp, b"other sums", authority / "root.pem")
    other = make_authority(tmp_path / "other")
    with pytest.raises(AuthenticationFailed):
        check(stamp, b"the sums", other)
    flipped = bytearray(stamp)
    flipped[-5] ^= 1
    with pytest.raises((AuthenticationFailed, FormatError)):
        check(bytes(flipped), b"the sums", authority / "root.pem")


def test_a_recording_is_stamped_by_its_last_segment_and_so_are_its_clips_and_remuxes(
    recording: Recording, authority: Path, tmp_path: Path
) -> None:
    report = verify(recording.path, recording.camera)
    with serving_stamps(authority) as url:
        stamp = stamp_recording(report, Authority(url))
    assert json.loads(stamp)["index"] == 5
    roots = authority / "root.pem"
    found, text = check_recording(report, stamp, roots)
    assert found.covers_all
    assert text.startswith("6 segments up to segment 5 existed at")
    clip = write_units(tmp_path / "clip.ts", joined(recording.units(), [3, 4, 5]))
    _, text = check_recording(verify(clip, recording.camera), stamp, roots)
    assert text.startswith("3 segments up to segment 5")
    later = seal_copy(recording.source, start_us=START_US + 10**8) if recording.source else []
    both = write_units(tmp_path / "both.mp4", recording.units() + later)
    assert not check_recording(verify(both, recording.camera), stamp, roots)[0].covers_all
    without = write_units(tmp_path / "without.mp4", joined(recording.units(), [0, 1, 2]))
    with pytest.raises(AuthenticationFailed, match="not in this recording"):
        check_recording(verify(without, recording.camera), stamp, roots)


def test_only_what_verifies_is_stamped(recording: Recording, authority: Path, tmp_path: Path) -> None:
    hurt = write_units(tmp_path / "hurt.mp4", flip_signature(joined(recording.units(), [2, 2, 2])[:30]))
    report = verify(hurt, None)
    with pytest.raises(UsageError, match="no verified segment"):
        stamp_recording(report, Authority("http://127.0.0.1:9/"))


def test_no_answer_and_other_addresses_are_named() -> None:
    with pytest.raises(PeerError, match="no time stamp"):
        Authority("http://127.0.0.1:9/").stamp(b"x")
    with pytest.raises(UsageError, match="http or https"):
        Authority("file:///etc/passwd")


@given(st.binary(max_size=300))
def test_random_bytes_are_no_stamp(authority: Path, data: bytes) -> None:
    with pytest.raises(FormatError):
        check(data, b"x", authority / "root.pem")
