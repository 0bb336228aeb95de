from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.veilcam.cli import Ended, environment
from tests.veilcam.conftest import Studio


@pytest.fixture(scope="module")
def office(studio: Studio, tmp_path_factory: pytest.TempPathFactory) -> Office:
    """Two custodians with a policy, an investigator, a request for the clip's middle, and both approvals."""
    made = Office(studio, tmp_path_factory.mktemp("office"))
    made.do("grant", "signer", made / "dora")
    made.do("grant", "signer", made / "dan")
    made.do("keys", "recipient", made / "iris", "--suite", "x25519")
    made.do(
        "grant",
        "policy",
        made / "house",
        "--threshold",
        "2",
        made / "dora.signer.pub",
        made / "dan.signer.pub",
    )
    made.do(
        *("grant", "request", made / "a.request", "-c", "keys/gate.pub", "-r", made / "iris.recipient"),
        *("--recording", "protected.mp4", "--from", "0", "--to", "2.1", "--case", "A-7", "--reason", "theft"),
    )
    for name in ("dora", "dan"):
        made.do("grant", "approve", made / "a.request", "-s", made / f"{name}.signer")
    return made


class Office:
    """A folder with its own ledger."""

    def __init__(self, studio: Studio, folder: Path) -> None:
        self._studio = studio
        self._folder = folder

    def __truediv__(self, name: str) -> Path:
        return self._folder / name

    def call(self, *arguments: str | Path) -> Ended:
        return self._studio.call(*arguments, env=environment(VEILCAM_LEDGER=str(self / "ledger.jsonl")))

    def do(self, *arguments: str | Path) -> Ended:
        ended = self.call(*arguments)
        assert ended.exit_code == 0, f"{arguments}: {ended.err}"
        return ended

    def issue(self, name: str, *approvals: str) -> Ended:
        given = [part for each in approvals for part in ("-a", self / f"a.request.{each}.approval")]
        return self.call(
            *(
                "grant",
                "issue",
                self / "a.request",
                "protected.mp4",
                "-o",
                self / name,
                "-c",
                "keys/gate.pub",
            ),
            *("-i", "keys/custodian.identity", "-s", self / "dora.signer", "--policy", self / "house"),
            *given,
            "--json",
        )


def test_request_to_revocation(office: Office) -> None:
    assert office.issue("few.grant", "dora").exit_code == 4
    assert not (office / "few.grant").exists()
    issued = office.issue("a.grant", "dora", "dan")
    assert (issued.exit_code, issued.json["segments"]) == (0, 1)
    shown = office.do("grant", "inspect", office / "a.grant", "--policy", office / "house")
    assert "A-7" in shown.out
    assert "dora, dan" in shown.out

    decode = ("decode", "protected.mp4", "-g", office / "a.grant", "-c", "keys/gate.pub", "--json")
    opened = office.do(*decode, "-i", office / "iris.identity", "-o", office / "out.mp4")
    assert (opened.json["grant"], opened.json["case"], opened.json["complete"]) == (
        issued.json["grant"],
        "A-7",
        True,
    )
    for number, extra in enumerate(
        (("-i", "keys/custodian.identity"), ("-i", office / "iris.identity", "--from", "3"))
    ):
        ended = office.call(*decode, *extra, "-o", office / f"no{number}.mp4")
        assert ended.exit_code == 4, ended.err

    office.do("grant", "revoke", office / "a.grant", "-s", office / "dora.signer", "--reason", "closed")
    ended = office.call(*decode, "-i", office / "iris.identity", "-o", office / "late.mp4")
    assert (ended.exit_code, "revoked" in ended.err) == (4, True)
    kinds = [json.loads(line)["kind"] for line in (office / "ledger.jsonl").read_text().splitlines()]
    assert kinds == [
        *("grant-requested", "grant-approved", "grant-approved", "refused", "grant-issuing", "grant-issued"),
        *("open", "end", "refused", "refused", "grant-revoked", "refused"),
    ]


def test_a_revocation_file_works_where_the_ledger_does_not_know_it(office: Office, tmp_path: Path) -> None:
    if not (office / "b.grant").exists():
        assert office.issue("b.grant", "dora", "dan").exit_code == 0
    office.do("grant", "revoke", office / "b.grant", "-s", office / "dora.signer", "--reason", "closed")
    elsewhere = Office(office._studio, tmp_path)
    decode = ("decode", "protected.mp4", "-g", office / "b.grant", "-i", office / "iris.identity")
    ended = elsewhere.call(*decode, "-o", tmp_path / "x.mp4", "--revocation", office / "b.grant.revocation")
    assert (ended.exit_code, "closed" in ended.err) == (4, True)
    assert elsewhere.call(*decode, "-o", tmp_path / "y.mp4").exit_code == 0  # as docs/grants.md says


def test_a_changed_grant_is_an_integrity_failure(office: Office, tmp_path: Path) -> None:
    if not (office / "c.grant").exists():
        assert office.issue("c.grant", "dora", "dan").exit_code == 0
    data = (office / "c.grant").read_bytes()
    (tmp_path / "c.grant").write_bytes(data.replace(b'"case":"A-7"', b'"case":"A-8"'))
    assert office.call("grant", "inspect", tmp_path / "c.grant").exit_code == 3
    (tmp_path / "c.grant").write_bytes(data[:-1])
    assert office.call("grant", "inspect", tmp_path / "c.grant").exit_code == 2


@pytest.mark.parametrize("name", ["a.request", "a.request.dora.approval", "house"])
def test_inspect_shows_every_document(office: Office, name: str) -> None:
    ended = office.do("grant", "inspect", office / name, "--json")
    assert ended.json["type"].startswith("veilcam ")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--from", "0", "--to", "9"), "--recording"),
        (("--from", "2026-11-30T08:00:00Z"), "one --to for each"),
        (("--from", "2026-11-30T08:00:00Z", "--to", "2026-11-30T07:00:00Z"), "time range"),
        (("--from", "2026-11-30T08:00:00Z", "--to", "2026-11-30T09:00:00Z", "--expires", "soon"), "ISO 8601"),
        (("--from", "2026-11-30T08:00:00Z", "--to", "2026-11-30T09:00:00Z", "--track", "7"), "--tracks"),
    ],
)
def test_a_request_that_cannot_be_meant_is_a_usage_error(
    office: Office, arguments: tuple[str, ...], why: str
) -> None:
    ended = office.call(
        *("grant", "request", office / "bad.request", "-c", "keys/gate.pub", "-r", office / "iris.recipient"),
        *(
            "--case",
            "A-7",
            "--reason",
            "theft",
            *(arguments if "--to" in arguments else (*arguments, "--to", "1", "--to", "2")),
        ),
    )
    assert (ended.exit_code, why in ended.err) == (2, True), ended.err
    assert not (office / "bad.request").exists()


def _case(office: Office, folder: Path, *arguments: str | Path) -> Ended:
    base = ("case", "decode", "protected.mp4", "-o", folder, "-c", "keys/gate.pub", "--jobs", "1", "--json")
    return office.call(*base, "--grant", office / "c.grant", *arguments)


def test_a_case_holds_its_grant_against_policy_and_revocations(office: Office, tmp_path: Path) -> None:
    if not (office / "c.grant").exists():
        assert office.issue("c.grant", "dora", "dan").exit_code == 0
    iris = ("-i", office / "iris.identity")
    good = _case(office, tmp_path / "good", *iris, "--policy", office / "house")
    assert (good.exit_code, good.json["verdict"]) == (0, "authentic"), good.err
    office.do("grant", "policy", tmp_path / "others", "--threshold", "1", office / "dan.signer.pub")
    other = _case(office, tmp_path / "other", *iris, "--policy", tmp_path / "others")
    assert (other.exit_code, "no custodian" in other.err) == (4, True)
    stranger = _case(office, tmp_path / "stranger", "-i", "keys/stranger.identity")
    assert (stranger.exit_code, "not to us" in stranger.err) == (4, True)
    ledger = office / "ledger.jsonl"
    revocation = tmp_path / "c.revocation"
    elsewhere = Office(office._studio, tmp_path)  # whose ledger knows of no revocation
    revoke = ("grant", "revoke", office / "c.grant", "-s", office / "dora.signer", "--reason", "closed")
    elsewhere.do(*revoke, "-o", revocation)
    ended = _case(office, tmp_path / "ended", *iris, "--revocation", revocation)
    assert ended.exit_code == 4
    assert "revoked: closed" in ended.json["recordings"][0]["error"]
    kinds = [json.loads(line)["kind"] for line in ledger.read_text().splitlines()]
    assert kinds.count("refused") >= 3


def test_what_a_grant_does_not_hold_is_outside_of_its_case_and_no_failure(
    office: Office, tmp_path: Path
) -> None:
    """A day of recordings and a grant of one: the others were not asked for."""
    if not (office / "d.grant").exists():
        assert office.issue("d.grant", "dora", "dan").exit_code == 0
    keys = ("-r", "keys/custodian.recipient", "-c", "keys/gate.camera")
    office.do("protect", "clip.mp4", "-o", tmp_path / "later.mp4", *keys)
    case = ("case", "decode", "-c", "keys/gate.pub", "-i", office / "iris.identity", "-j", "1", "--json")
    given = ("--grant", office / "d.grant")
    ended = office.call(*case, *given, "protected.mp4", tmp_path / "later.mp4", "-o", tmp_path / "case")
    assert (ended.exit_code, ended.json["outside_the_range"]) == (0, ["later"]), ended.err
    assert [each["stem"] for each in ended.json["recordings"]] == ["protected"]
    nothing = office.call(*case, *given, tmp_path / "later.mp4", "-o", tmp_path / "nothing")
    assert (nothing.exit_code, nothing.json["ok"]) == (4, False)


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("keys/custodian.identity", "got a veilcam identity file"),
        ("keys/gate.camera", "got a veilcam camera file"),
        ("clip.mp4", "got something else"),
        ("empty", "got an empty file"),
        ("a.request", "expected a veilcam grant"),
    ],
)
def test_a_grant_that_is_something_else_is_named_for_what_it_is(
    office: Office, tmp_path: Path, name: str, got: str
) -> None:
    (tmp_path / "empty").touch()
    path = office / name if name == "a.request" else tmp_path / name if name == "empty" else name
    decode = ("decode", "protected.mp4", "-i", office / "iris.identity", "-o", tmp_path / "x.mp4")
    ended = office.call(*decode, "--grant", path)
    assert (ended.exit_code, f"{Path(name).name}: " in ended.err, got in ended.err) == (2, True, True), (
        ended.err
    )


def test_inspect_shows_a_revocation_and_names_what_is_none(office: Office, tmp_path: Path) -> None:
    if not (office / "e.grant").exists():
        assert office.issue("e.grant", "dora", "dan").exit_code == 0
    office.do("grant", "revoke", office / "e.grant", "-s", office / "dora.signer", "--reason", "moot")
    shown = office.do("grant", "inspect", office / "e.grant.revocation", "--json")
    assert (shown.json["type"], shown.json["reason"]) == ("veilcam grant revocation", "moot")
    ended = office.call("grant", "inspect", office / "iris.identity")
    assert (ended.exit_code, "got a veilcam identity file" in ended.err) == (2, True)
