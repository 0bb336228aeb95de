from __future__ import annotations

from codec.access_unit import AccessUnit
from codec.nal import join_annexb, join_avcc
from codec.sei import SeiKind, pack_message, pack_veilcam
from tests.support.streams import PPS, SPS

AUD = b"\x09\xf0"
IDR = b"\x65\x88\x84"
SLICE = b"\x41\x9a\x24"
BANNER = pack_message(5, bytes(16) + b"somebody")
META = pack_veilcam(SeiKind.META, b"meta")
SEALED = pack_veilcam(SeiKind.SEALED, b"sealed")


def test_our_sei_goes_between_parameter_sets_and_the_first_slice() -> None:
    unit = AccessUnit.from_nals([AUD, SPS, PPS, BANNER, IDR, IDR], 0).with_sei([META, SEALED])
    assert unit.nals == (AUD, SPS, PPS, BANNER, META, SEALED, IDR, IDR)


def test_our_sei_goes_before_a_prefix_nal_unit() -> None:
    prefix = b"\x6e\x40"
    assert AccessUnit.from_nals([prefix, SLICE], 0).with_sei([META]).nals == (META, prefix, SLICE)


def test_viewers_lose_the_ciphertext_and_nothing_else() -> None:
    unit = AccessUnit.from_nals([SPS, PPS, BANNER, META, SEALED, IDR], 5)
    assert unit.without_sealed().nals == (SPS, PPS, BANNER, META, IDR)
    assert unit.without_veilcam().nals == (SPS, PPS, BANNER, IDR)


def test_key_frames_and_pictures_are_told_by_their_slices() -> None:
    assert AccessUnit.from_nals([SPS, PPS, IDR], 0).is_keyframe
    assert not AccessUnit.from_nals([SLICE], 0).is_keyframe
    assert not AccessUnit.from_nals([SPS, META], 0).has_picture
    assert AccessUnit.from_nals([SLICE], 0).has_picture


def test_both_framings_parse_to_the_same_unit() -> None:
    nals = (SPS, PPS, META, IDR)
    annexb = AccessUnit.from_annexb(join_annexb(nals), 40_000)
    assert annexb == AccessUnit.from_avcc(join_avcc(nals), 40_000)
    assert annexb.annexb() == join_annexb(nals)
    assert annexb.avcc() == join_avcc(nals)
    assert annexb.num_bytes == len(annexb.annexb())


def test_missing_parameter_sets_are_put_in_front_behind_the_delimiter() -> None:
    assert AccessUnit.from_nals([AUD, IDR], 0).with_parameter_sets([SPS, PPS]).nals == (AUD, SPS, PPS, IDR)
    assert AccessUnit.from_nals([SPS, PPS, IDR], 0).with_parameter_sets([SPS, PPS]).nals == (SPS, PPS, IDR)
    assert AccessUnit.from_nals([SPS, IDR], 0).parameter_sets() == (SPS,)
