"""k of n: shares, their files, and opening with people in one room or by approvals."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import (
    AuthenticationFailed,
    FormatError,
    KeyUnavailable,
    Malformed,
    UsageError,
    WrongPassphrase,
)
from keys import Identity, Recipient, SecretBytes, slip39
from keys.backends import open_identity
from keys.opening_request import OpeningRequest, ShareApproval
from keys.quorum import open_quorum
from keys.secret import RevealToken
from keys.shares import LockedShare, OpenShare, join_identity, split_identity
from keys.store import save_identity
from keys.suite import Suite

pytest.importorskip("shamir_mnemonic", reason="required: shamir-mnemonic is not installed")
import shamir_mnemonic

VECTORS = json.loads((Path(__file__).parent / "vectors" / "slip39.json").read_text())["vectors"]
HOLDERS = ("dora", "emil", "fay")
SEED = bytes(range(32))
IDENTITY = Identity("custody", Suite.X25519, SecretBytes(SEED))
REVEAL = RevealToken("test")
NOW_US = 1_800_000_000_000_000
HOUR_US = 3_600_000_000


def deal() -> tuple[OpenShare, ...]:
    return split_identity(IDENTITY, 2, HOLDERS)


DEALT = deal()


@pytest.mark.parametrize("vector", VECTORS, ids=[each["what"] for each in VECTORS])
def test_the_library_gives_the_answers_of_slip_0039(vector: dict[str, object]) -> None:
    shares = vector["shares"]
    assert isinstance(shares, list)
    if vector["secret"] is None:
        with pytest.raises(shamir_mnemonic.MnemonicError):
            shamir_mnemonic.combine_mnemonics(shares, b"TREZOR")
    else:
        assert shamir_mnemonic.combine_mnemonics(shares, b"TREZOR").hex() == vector["secret"]


@pytest.mark.parametrize(("threshold", "count"), [(2, 2), (2, 3), (3, 5), (16, 16)])
def test_any_threshold_of_the_shares_joins_to_the_key(threshold: int, count: int) -> None:
    shares = slip39.split(SecretBytes(SEED), threshold, count)
    for chosen in itertools.islice(itertools.combinations(shares, threshold), 12):
        assert slip39.join(chosen) == SecretBytes(SEED)
    with pytest.raises(UsageError, match="that are needed"):
        slip39.join(shares[: threshold - 1])


@pytest.mark.parametrize(("threshold", "count"), [(1, 2), (0, 0), (3, 2), (2, 17)])
def test_thresholds_that_protect_nothing_are_refused(threshold: int, count: int) -> None:
    with pytest.raises(UsageError, match="2 <= threshold"):
        slip39.split(SecretBytes(SEED), threshold, count)


def test_words_on_paper_are_read_back_and_by_any_slip_0039_program() -> None:
    words = [share.value.words() for share in DEALT]
    assert len(words[0].split()) == 33
    again = [slip39.from_words(f"  {text.upper()}\n") for text in words]
    assert [each.value for each in again] == [each.value.value for each in DEALT]
    assert shamir_mnemonic.combine_mnemonics(words[:2], b"") == SEED


def test_a_wrong_word_is_refused_without_quoting_it() -> None:
    words = DEALT[0].value.words().split()
    words[7] = "academic" if words[7] != "academic" else "acid"
    for text in (" ".join(words), " ".join(words[:-1]), "hello world", "x" * 1000, VECTORS[9]["shares"][0]):
        with pytest.raises(Malformed) as caught:
            slip39.from_words(text)
        assert words[0] not in str(caught.value)


def test_fewer_shares_than_the_threshold_are_uniform() -> None:
    """The same secret dealt often: bytes of one share take values all over the place."""
    first = {slip39.split(SecretBytes(bytes(32)), 2, 2)[0].value.expose(REVEAL)[0] for _ in range(16)}
    assert len(first) > 8


def test_shares_join_to_the_identity_that_was_split() -> None:
    joined = join_identity(DEALT[1:])
    assert joined.recipient == IDENTITY.recipient
    assert joined.seed == IDENTITY.seed


def test_one_share_or_one_share_twice_is_not_enough() -> None:
    for few in ((), DEALT[:1], (DEALT[0], DEALT[0])):
        with pytest.raises(UsageError):
            join_identity(few)


def test_shares_of_two_splits_do_not_mix() -> None:
    with pytest.raises(UsageError, match="share of emil: of another set than that of dora"):
        join_identity((DEALT[0], deal()[1]))


@pytest.mark.parametrize("index", range(3))
def test_a_wrong_share_is_named(index: int) -> None:
    share = DEALT[index]
    wrong = bytearray(share.value.value.expose(REVEAL))
    wrong[5] ^= 1
    forged = dataclasses.replace(share, value=dataclasses.replace(share.value, value=SecretBytes(wrong)))
    others = [each for each in DEALT if each is not share]
    with pytest.raises(AuthenticationFailed, match=f"share of {HOLDERS[index]}: not the one"):
        join_identity([forged, *others])


def test_a_share_file_is_read_back_and_opens_with_its_passphrase_alone() -> None:
    locked = LockedShare.seal(DEALT[0], "dora's", log2_n=10)
    read = LockedShare.parse(bytes(locked))
    assert read == locked
    assert read.open("dora's").value.value == DEALT[0].value.value
    with pytest.raises(WrongPassphrase, match="share of dora"):
        read.open("emil's")


@pytest.mark.parametrize("line", range(1, 13))
def test_no_line_of_a_share_file_can_be_changed(line: int) -> None:
    lines = bytes(LockedShare.seal(DEALT[0], "dora's", log2_n=10)).split(b"\n")
    changes = {b"2": b"3", b"3": b"4", b"0": b"1"}
    value = lines[line].split(b": ", 1)[1]
    flipped = changes.get(value, value[:-4] + (b"abcd" if value[-4:] != b"abcd" else b"abce"))
    lines[line] = lines[line].replace(value, flipped)
    with pytest.raises((FormatError, WrongPassphrase, AuthenticationFailed)):
        LockedShare.parse(b"\n".join(lines)).open("dora's")


def _request(**changes: object) -> tuple[OpeningRequest, Identity]:
    session, identity = Recipient.generate("case-117")
    request = OpeningRequest(
        session, DEALT[0].share_set, "117", "theft ü", "emil@office", NOW_US, NOW_US + HOUR_US
    )
    return dataclasses.replace(request, **changes), identity  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["a\x1b[2K\rfingerprint 0000", "x" * 2001, "\u202e"])
def test_a_request_that_no_holder_could_read_is_not_made(text: str) -> None:
    with pytest.raises(UsageError, match="reason"):
        _request(reason=text)


def test_the_longest_request_is_read_back() -> None:
    request, _ = _request(case="\U0001f600" * 2000, reason="\U0001f600" * 2000, who="\U0001f600" * 2000)
    assert OpeningRequest.parse(bytes(request)) == request


def test_request_and_approval_are_read_back() -> None:
    request, _ = _request()
    assert OpeningRequest.parse(bytes(request)) == request
    approval = ShareApproval.make(request, DEALT[0], NOW_US)
    assert ShareApproval.parse(bytes(approval)) == approval


def test_an_approval_opens_for_its_request_and_session_only() -> None:
    request, session = _request()
    approval = ShareApproval.make(request, DEALT[0], NOW_US)
    assert approval.open(request, session).value.value == DEALT[0].value.value
    stranger, strangers_session = _request()
    longer = dataclasses.replace(request, expires_us=NOW_US + 2 * HOUR_US)
    for other, key in ((longer, session), (stranger, strangers_session), (request, strangers_session)):
        with pytest.raises(AuthenticationFailed):
            approval.open(other, key)
    moved = dataclasses.replace(approval, request_digest=longer.digest)
    with pytest.raises(AuthenticationFailed):
        moved.open(longer, session)
    with pytest.raises(AuthenticationFailed):
        dataclasses.replace(approval, index=1).open(request, session)


def test_an_expired_request_is_not_approved() -> None:
    request, _ = _request()
    with pytest.raises(KeyUnavailable, match="expired"):
        ShareApproval.make(request, DEALT[0], NOW_US + HOUR_US)


def test_a_share_of_another_set_does_not_approve() -> None:
    request, _ = _request()
    with pytest.raises(UsageError, match="another set"):
        ShareApproval.make(request, deal()[0], NOW_US)


def _write(folder: Path, request: OpeningRequest, session: Identity, *indices: int) -> str:
    (folder / "case-117.request").write_bytes(bytes(request))
    save_identity(folder, session, "asker's", log2_n=10)
    for index in indices:
        approval = ShareApproval.make(request, DEALT[index], NOW_US)
        (folder / f"case-117.{HOLDERS[index]}.approval").write_bytes(bytes(approval))
    return f"quorum:{folder}/case-117.request"


def test_two_approvals_open_once_and_the_session_key_is_gone(tmp_path: Path) -> None:
    uri = _write(tmp_path, *_request(), 0, 2)
    opened = open_quorum(uri, "asker's", clock=lambda: NOW_US + 1)
    assert opened.recipient == IDENTITY.recipient
    assert not (tmp_path / "case-117.identity").exists()
    with pytest.raises(KeyUnavailable, match="approvals open once"):
        open_quorum(uri, "asker's", clock=lambda: NOW_US + 1)


def test_one_approval_the_same_twice_or_a_late_one_opens_nothing(tmp_path: Path) -> None:
    uri = _write(tmp_path, *_request(), 0)
    (tmp_path / "case-117.x.approval").write_bytes((tmp_path / "case-117.dora.approval").read_bytes())
    with pytest.raises(KeyUnavailable, match="1 of 2 approvals"):
        open_quorum(uri, "asker's", clock=lambda: NOW_US)
    uri = _write_more(tmp_path)
    with pytest.raises(KeyUnavailable, match="expired"):
        open_quorum(uri, "asker's", clock=lambda: NOW_US + HOUR_US)
    assert (tmp_path / "case-117.identity").exists()


def _write_more(folder: Path) -> str:
    request = OpeningRequest.parse((folder / "case-117.request").read_bytes())
    approval = ShareApproval.make(request, DEALT[1], NOW_US)
    (folder / "case-117.emil.approval").write_bytes(bytes(approval))
    return f"quorum:{folder}/case-117.request"


def test_shares_open_in_one_room_with_a_passphrase_each(tmp_path: Path) -> None:
    paths = []
    for share in DEALT[:2]:
        path = tmp_path / f"custody.{share.holder}.share"
        path.write_bytes(bytes(LockedShare.seal(share, f"{share.holder}'s", log2_n=10)))
        paths.append(str(path))
    asked: list[str] = []

    def answer(purpose: str) -> str:
        asked.append(purpose)
        return f"{purpose.rsplit(maxsplit=1)[-1]}'s"

    opened = open_identity(f"shares:{','.join(paths)}", answer)
    assert opened.recipient == IDENTITY.recipient
    assert asked == ["share of dora", "share of emil"]
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match="that are needed"):
        open_identity(f"shares:{paths[0]}", answer)
    assert sorted(tmp_path.iterdir()) == before


@settings(max_examples=60)
@given(st.binary(max_size=400), st.integers(0, 700), st.integers(0, 255))
def test_random_and_broken_files_raise_only_format_errors(data: bytes, place: int, byte: int) -> None:
    request = bytearray(bytes(_REQUEST))
    approval = bytearray(bytes(_APPROVAL))
    share = bytearray(bytes(_SHARE))
    for good in (request, approval, share):
        good[place % len(good)] = byte
    for parse, inputs in (
        (OpeningRequest.parse, (data, bytes(request))),
        (ShareApproval.parse, (data, bytes(approval))),
        (LockedShare.parse, (data, bytes(share))),
    ):
        for each in inputs:
            with contextlib.suppress(FormatError):
                parsed = parse(each)
                assert bytes(parsed) == each


_REQUEST = _request()[0]
_APPROVAL = ShareApproval.make(_REQUEST, DEALT[0], NOW_US)
_SHARE = LockedShare.seal(DEALT[0], "dora's", log2_n=10)


@pytest.mark.parametrize("holder", [DEALT[0], DEALT[0].value, DEALT[0].value.value])
def test_open_shares_print_nothing(holder: object) -> None:
    value = bytes(DEALT[0].value.value.expose(REVEAL))
    assert value.hex() not in repr(holder)
    assert repr(value)[2:-1] not in repr(holder)
    assert repr(holder).startswith("<")
