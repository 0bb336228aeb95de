from __future__ import annotations

from dataclasses import replace

import pytest

from codec.access_unit import AccessUnit
from codec.limits import Limits
from codec.reader import Tlv
from codec.records import Meta, SealedMode
from codec.segments import read_segments, view_unit
from codec.sei import VEILCAM_UUID, SeiKind, pack_message, pack_veilcam
from codec.verify import Reason, SegmentEvidence, Verdict, check_segment
from tests.support.streams import FRAME_US, PPS, SPS, START_US, Stream, build_stream, camera_key

S = build_stream("KPPP|KPPP|KPPP")
BARE = S.without_veilcam().units
FOREIGN_PICTURE = AccessUnit.from_nals([b"\x41\x99\x80"], 0)


def _with_meta(stream: Stream, position: int, **changes: object) -> Stream:
    """The stream with fields of one META message replaced."""
    unit = stream.units[position]
    meta = view_unit(unit).meta
    assert meta is not None
    nal = pack_veilcam(SeiKind.META, bytes(replace(meta, **changes)))  # type: ignore[arg-type]  # fields of Meta
    sealed = [each for each in unit.nals if each not in unit.without_sealed().nals]
    return stream.edit(position, unit.without_veilcam().with_sei([nal, *sealed]))


def _meta(position: int) -> Meta:
    meta = view_unit(S.units[position]).meta
    assert meta is not None
    return meta


# (what was done, letters, verdicts)
CASES = {
    "nothing": (S, "AAAA|AAAA|AAAA", "authentic authentic authentic"),
    "no sealed layer": (build_stream("KP|K", mode=SealedMode.NONE), "AA|A", "authentic authentic"),
    # loss
    "unit lost": (S.drop(5), "AAAA|AMAA|AAAA", "authentic gaps authentic"),
    "two units lost": (S.drop(5, 6), "AAAA|AMMA|AAAA", "authentic gaps authentic"),
    "key frame lost": (S.drop(4), "AAAA|MAAA|AAAA", "authentic gaps authentic"),
    "signature lost": (S.drop(7), "AAAA|UUU|AAAA", "authentic unverifiable authentic"),
    "end cut": (S.cut(0, 10), "AAAA|AAAA|UU", "authentic authentic unverifiable"),
    "clip from the middle": (S.cut(2, 8), "MMAA|AAAA", "gaps authentic"),
    "clip of whole segments": (S.cut(4), "AAAA|AAAA", "authentic authentic"),
    "segment lost": (S.drop(4, 5, 6, 7), "AAAA|AAAA", "authentic gaps"),
    # the sealed layer alone
    "stripped": (S.without_sealed(), "SSSS|SSSS|SSSS", "authentic authentic authentic"),
    "stripped from one": (
        S.edit(5, S.units[5].without_sealed()),
        "AAAA|ASAA|AAAA",
        "authentic authentic authentic",
    ),
    # tampering
    "picture flipped": (S.flip_bit(5), "AAAA|ATAA|AAAA", "authentic tampered authentic"),
    "ciphertext flipped": (S.flip_bit(5, nal=1, byte=60), "AAAA|ATAA|AAAA", "authentic tampered authentic"),
    "swapped": (S.swap(5, 6), "AAAA|ATTA|AAAA", "authentic tampered authentic"),
    "swapped with the signature": (S.swap(6, 7), "AAAA|AATT|AAAA", "authentic tampered authentic"),
    "swapped across segments": (
        S.swap(1, 5),
        "ATAA|ATAA|AAAA",
        "tampered tampered authentic",
    ),
    "repeated": (S.repeat(5, 6, 6), "AAAA|AATAA|AAAA", "authentic tampered authentic"),
    "inserted": (S.insert(6, FOREIGN_PICTURE), "AAAA|AATAA|AAAA", "authentic tampered authentic"),
    "replaced": (S.edit(6, FOREIGN_PICTURE), "AAAA|AATA|AAAA", "authentic tampered authentic"),
    "appended": (S.insert(8, FOREIGN_PICTURE), "AAAA|AAAAT|AAAA", "authentic tampered authentic"),
    "meta removed": (S.without_veilcam(6), "AAAA|AATA|AAAA", "authentic tampered authentic"),
    "extra picture NAL unit": (
        S.edit(5, replace(S.units[5], nals=(*S.units[5].nals, b"\x54\x01"))),
        "AAAA|ATAA|AAAA",
        "authentic tampered authentic",
    ),
    "extra chunk": (
        S.edit(5, S.units[5].with_sei([S.units[6].nals[1]])),
        "AAAA|ATAA|AAAA",
        "authentic tampered authentic",
    ),
    "header removed": (_with_meta(S, 4, header=None), "AAAA|TAAA|AAAA", "authentic tampered authentic"),
    "header of another segment": (
        _with_meta(S, 4, header=_meta(0).header),
        "AAAA|TAAA|AAAA",
        "authentic tampered authentic",
    ),
    "signature of another segment": (
        _with_meta(S, 7, signature=_meta(3).signature),
        "AAAA|UUUT|AAAA",
        "authentic tampered authentic",
    ),
    "signature garbled": (
        _with_meta(S, 7, signature=b"short"),
        "AAAA|UUUT|AAAA",
        "authentic tampered authentic",
    ),
    "frame number changed": (
        _with_meta(S, 5, frame=replace(_meta(5).frame, frame_index=9)),
        "AAAA|AMTAA|AAAA",
        "authentic tampered authentic",
    ),
    "time changed": (
        _with_meta(S, 5, frame=replace(_meta(5).frame, time_us=0)),
        "AAAA|ATAA|AAAA",
        "authentic tampered authentic",
    ),
    "replayed at once": (
        S.repeat(0, 4, 4),
        "AAAA|AAAA|AAAA|AAAA",
        "authentic tampered authentic authentic",
    ),
    "replayed later": (
        S.repeat(0, 4, 8),
        "AAAA|AAAA|AAAA|AAAA",
        "authentic authentic tampered authentic",
    ),
    "key frame replayed": (
        S.repeat(4, 5, 5),
        "AAAA|U|AAAA|AAAA",
        "authentic unverifiable tampered authentic",
    ),
    "segments swapped": (
        S._with(S.units[:4] + S.units[8:] + S.units[4:8]),
        "AAAA|AAAA|AAAA",
        "authentic gaps tampered",
    ),
    "every picture flipped": (
        build_stream("KP").flip_bit(0).flip_bit(1),
        "TT",
        "tampered",
    ),
    # unsigned
    "all our data removed": (S.without_veilcam(), "NNNN|NNNN|NNNN", "unsigned unsigned unsigned"),
    "unsigned recording inserted": (
        S.insert(4, *BARE[:4]),
        "AAAA|NNNN|AAAA|AAAA",
        "authentic unsigned authentic authentic",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_letters_and_verdicts(case: str) -> None:
    stream, letters, verdicts = CASES[case]
    assert stream.letters() == letters
    assert " ".join(stream.verdicts()) == verdicts


def test_loss_is_never_called_tampering() -> None:
    """Any set of lost units leaves no segment worse than unverifiable."""
    for lost in range(1, 2**8 - 1):
        stream = S.cut(0, 8).drop(*(i for i in range(8) if lost >> i & 1))
        assert Verdict.TAMPERED.value not in stream.verdicts()


def test_lost_segments_are_counted() -> None:
    (_, evidence) = S.drop(*range(4, 8)).check()
    assert [str(finding) for finding in evidence.findings] == ["segments missing (segment 1)"]
    long = build_stream("K|K|K|K|K").drop(1, 2, 3)
    assert "segments 1 to 3" in str(long.check()[1].findings[0])


def test_evidence_counts_pictures_and_names_ids_and_times() -> None:
    evidence = S.drop(5).check()[1]
    assert (evidence.num_signed, evidence.num_present) == (4, 3)
    assert evidence.segment_index == 1
    assert evidence.camera_id == S.camera.camera_id
    assert evidence.camera_verified
    assert (evidence.start_us, evidence.end_us) == (START_US + 4 * FRAME_US, START_US + 7 * FRAME_US)


def test_a_segment_behind_an_unverified_one_is_not_called_a_break() -> None:
    last = S.drop(7).check()[2]
    assert last.verdict is Verdict.AUTHENTIC
    assert last.reasons == {Reason.CHAIN_UNKNOWN}


def test_a_segment_that_names_another_predecessor_breaks_the_chain() -> None:
    first, second = S.views()[:2]
    evidence = check_segment(first, S.camera)
    ((stream_id, last),) = evidence.chain.streams.items()
    other = replace(evidence.chain, streams={stream_id: replace(last, signature_digest=bytes(32))})
    broken = check_segment(second, S.camera, replace(evidence, chain=other))
    assert broken.reasons == {Reason.CHAIN_BROKEN}
    assert broken.verdict is Verdict.TAMPERED


def test_another_stream_of_the_same_camera_spliced_in_is_found() -> None:
    other = build_stream("KPPP|KPPP")
    spliced = S.cut(0, 4).then(other.cut(4)).then(S.cut(8))
    assert spliced.verdicts() == ["authentic", "gaps", "tampered"]
    assert Reason.SPLICED in spliced.check()[2].reasons


def test_a_stream_filmed_before_the_one_ahead_of_it_is_out_of_order() -> None:
    later = build_stream("KP|KP", first_number=1_000)
    assert S.then(later).verdicts() == ["authentic"] * 5
    assert Reason.NEW_STREAM in S.then(later).check()[3].reasons
    assert later.then(S).verdicts() == ["authentic", "authentic", "tampered", "authentic", "authentic"]


def test_a_restart_whose_first_segment_is_lost_is_a_gap() -> None:
    later = build_stream("KP|KP", first_number=1_000).cut(2)
    evidence = S.then(later).check()[3]
    assert evidence.verdict is Verdict.GAPS
    assert evidence.reasons == {Reason.NEW_STREAM, Reason.SEGMENTS_MISSING}


def test_another_camera_is_found_by_name_and_by_signature() -> None:
    other = build_stream("KPPP|KPPP", camera=2)
    evidence = other.check(S.camera)[0]
    assert evidence.verdict is Verdict.TAMPERED
    assert evidence.reasons == {Reason.WRONG_CAMERA}
    assert evidence.letters == "UUUU"
    assert not evidence.camera_verified
    headless = other.drop(0).check(S.camera)[0]
    assert Reason.SIGNATURE_INVALID in headless.reasons


def test_a_signature_by_another_key_under_the_right_name_is_invalid() -> None:
    view = S.views()[0]
    signature = view.units[-1].meta
    assert signature is not None
    forged = camera_key(2).sign((signature.signature or b"")[:-64])
    stream = _with_meta(S, 3, signature=(signature.signature or b"")[:-64] + forged)
    assert Reason.SIGNATURE_INVALID in stream.check()[0].reasons
    assert stream.check()[0].letters == "UUUT"


def test_without_a_camera_key_nothing_is_authentic_but_contradictions_show() -> None:
    def check(stream: Stream) -> list[SegmentEvidence]:
        found: list[SegmentEvidence] = []
        for view in stream.views():
            found.append(check_segment(view, None, found[-1] if found else None))
        return found

    assert {(e.verdict, e.letters) for e in check(S)} == {(Verdict.UNVERIFIABLE, "UUUU")}
    assert check(S.flip_bit(5))[1].letters == "UTUU"
    assert check(S.flip_bit(5))[1].verdict is Verdict.TAMPERED
    assert check(S.repeat(0, 4, 4))[1].verdict is Verdict.TAMPERED


@pytest.mark.parametrize(
    "edit",
    [
        lambda nals: (b"\x09\xf0", *nals),
        lambda nals: (SPS, PPS, *nals),
        lambda nals: (*nals, b"\x0c\xff\x80"),
        lambda nals: (pack_message(5, bytes(16) + b"other"), *nals),
        lambda nals: (*nals, b"\x0b"),
    ],
    ids=["delimiter", "repeated parameter sets", "filler", "foreign SEI", "end of stream"],
)
def test_what_muxers_do_changes_nothing(edit: object) -> None:
    units = [replace(unit, nals=edit(unit.nals)) for unit in S.units]  # type: ignore[operator]  # of the list above
    assert S._with(units).letters() == "AAAA|AAAA|AAAA"


def test_parameter_sets_are_pinned() -> None:
    other = SPS[:-1] + b"\xa9"
    first = S.units[4]
    changed = S.edit(4, replace(first, nals=(other, *first.nals[1:])))
    assert changed.letters() == "AAAA|TAAA|AAAA"
    assert changed.check()[1].reasons == {Reason.PARAMETER_SETS_CHANGED}
    added = S.edit(5, replace(S.units[5], nals=(other, *S.units[5].nals)))
    assert added.letters() == "AAAA|ATAA|AAAA"


def test_parameter_sets_may_live_in_the_container() -> None:
    first = S.units[0]
    moved = S.edit(0, replace(first, nals=first.nals[2:]))
    view = moved.views()[0]
    assert check_segment(view, S.camera).reasons == {Reason.PARAMETER_SETS_UNSEEN}
    assert check_segment(view, S.camera, parameter_sets=(SPS, PPS)).findings == ()
    assert check_segment(view, S.camera, parameter_sets=(SPS, PPS + b"\x01")).verdict is Verdict.TAMPERED
    half = S.edit(0, replace(first, nals=first.nals[1:])).views()[0]
    assert check_segment(half, S.camera, parameter_sets=(SPS, PPS)).findings == ()


def test_damaged_data_is_tampering_and_newer_data_is_not() -> None:
    unit = S.units[5]
    newer = pack_message(5, VEILCAM_UUID + bytes([2, SeiKind.META]) + b"unknown")
    future = S.cut(0, 5).insert(5, unit.without_veilcam().with_sei([newer]))
    assert future.check()[1].verdict is Verdict.UNVERIFIABLE
    assert Reason.NEWER_FORMAT in future.check()[1].reasons
    damaged = S.cut(0, 5).insert(5, unit.without_veilcam().with_sei([pack_veilcam(SeiKind.META, b"")]))
    assert damaged.check()[1].verdict is Verdict.TAMPERED
    assert Reason.META_DAMAGED in damaged.check()[1].reasons
    only_newer = S._with([S.units[0].without_veilcam().with_sei([newer])])
    assert only_newer.verdicts() == ["unverifiable"]
    only_damaged = S._with([S.units[0].without_veilcam().with_sei([pack_veilcam(SeiKind.META, b"")])])
    assert only_damaged.letters() == "T"


def test_a_header_of_the_future_makes_the_segment_unverifiable() -> None:
    header = view_unit(S.units[0]).meta
    assert header is not None
    body = (header.header or b"") + bytes(Tlv(0x90, b""))
    evidence = _with_meta(S, 0, header=body).check()[0]
    assert Reason.NEWER_FORMAT in evidence.reasons


def test_unknown_optional_data_does_no_harm() -> None:
    extra = pack_veilcam(SeiKind.META, b"")[:-1]
    kind = pack_message(5, VEILCAM_UUID + bytes([1, 0x55]) + extra)
    assert S.edit(5, S.units[5].with_sei([kind])).letters() == "AAAA|AAAA|AAAA"


def test_the_chain_remembers_a_bounded_number_of_streams() -> None:
    limits = Limits(max_known_streams=2)
    previous: SegmentEvidence | None = None
    for number in range(4):
        (view,) = read_segments(build_stream("K", first_number=number).units)
        previous = check_segment(view, S.camera, previous, limits=limits)
        assert previous.verdict is Verdict.AUTHENTIC
    assert previous is not None
    assert len(previous.chain.streams) == 2


@pytest.mark.parametrize("keep", [None, 5])
def test_a_last_unit_that_the_end_of_the_input_cut_is_a_loss(keep: int | None) -> None:
    """Cut within its slice, or so early that nothing of ours is left."""
    unit = S.units[7]
    nals = (*unit.nals[:-1], unit.nals[-1][:-9]) if keep is None else (unit.nals[-1][:keep],)
    stream = S.cut(0, 7).insert(7, replace(unit, nals=nals))
    first, second = stream.views()
    before = check_segment(first, S.camera, may_be_cut=True)
    evidence = check_segment(second, S.camera, before, may_be_cut=True)
    assert evidence.letters == ("AAAM" if keep is None else "UUUM")
    assert evidence.verdict is (Verdict.GAPS if keep is None else Verdict.UNVERIFIABLE)
    assert check_segment(replace(second, ends_input=False), S.camera, before, may_be_cut=True).letters != (
        evidence.letters
    )


def test_a_cut_excuses_the_last_unit_alone() -> None:
    view = S.flip_bit(10).views()[2]
    assert check_segment(view, S.camera, may_be_cut=True).letters == "AATA"
    assert check_segment(S.flip_bit(7).views()[1], S.camera, may_be_cut=True).letters == "AAAT"
