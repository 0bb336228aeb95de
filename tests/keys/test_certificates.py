"""Camera certificates: issued, checked, revoked; openssl agrees."""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import AuthenticationFailed, FormatError, UsageError
from keys import CameraKey, SecretBytes, x509_profile
from keys.authority import (
    DAY_US,
    Authority,
    RevocationReason,
    certification_request,
    parse_request,
)
from keys.certified import CertifiedCamera, certified_camera
from keys.signer import SignerKey
from keys.x509_profile import parse_chain, parse_crl, to_pem

NOW_US = 1_800_000_000_000_000
GATE = CameraKey("gate", SecretBytes(bytes(range(32))))
ROOT = Authority.root(SignerKey("root", SecretBytes(b"r" * 32)), now_us=NOW_US)
_SITE_KEY = SignerKey("site", SecretBytes(b"s" * 32))
SITE = Authority(_SITE_KEY, ROOT.certify_authority(_SITE_KEY.public, now_us=NOW_US))
CHAIN = SITE.certify_camera(GATE.public, now_us=NOW_US)
OTHER_ROOT = Authority.root(SignerKey("root", SecretBytes(b"o" * 32)), now_us=NOW_US)


def crl(
    authority: Authority, *certificates: x509.Certificate, **changes: object
) -> x509.CertificateRevocationList:
    """A revocation list."""
    reason = changes.get("reason", RevocationReason.KEY_COMPROMISE)
    since_us = changes.get("since_us", NOW_US + DAY_US)
    before = changes.get("before")
    assert isinstance(reason, RevocationReason)
    assert isinstance(since_us, int)
    assert before is None or isinstance(before, x509.CertificateRevocationList)
    pem = authority.revoke(before, certificates, reason, since_us=since_us, now_us=NOW_US + 2 * DAY_US)
    return parse_crl(pem, where="crl")


def check(
    *crls: x509.CertificateRevocationList, chain: tuple[x509.Certificate, ...] = CHAIN
) -> CertifiedCamera:
    """Check a chain against our root."""
    return certified_camera(chain, ROOT.chain[0], crls, now_us=NOW_US + 3 * DAY_US)


def test_a_chain_names_the_camera_its_key_and_its_times() -> None:
    found = check()
    assert found.public == GATE.public
    assert found.issuers == ("site", "root")
    assert (found.not_before_us, found.not_after_us) == (NOW_US, NOW_US + 730 * DAY_US)
    assert found.notes == ("no revocation list of site was given", "no revocation list of root was given")


@pytest.mark.parametrize("given_chain", [CHAIN, CHAIN[:2]])
def test_the_root_may_be_in_the_chain_or_not(given_chain: tuple[x509.Certificate, ...]) -> None:
    assert check(chain=given_chain).public == GATE.public


def test_a_root_may_vouch_for_a_camera_itself() -> None:
    found = check(chain=ROOT.certify_camera(GATE.public, now_us=NOW_US))
    assert found.issuers == ("root",)


def test_another_root_of_the_same_name_is_not_ours() -> None:
    with pytest.raises(AuthenticationFailed, match="not signed by root"):
        certified_camera(CHAIN[:2], OTHER_ROOT.chain[0], now_us=NOW_US)
    with pytest.raises(AuthenticationFailed):
        certified_camera(CHAIN, OTHER_ROOT.chain[0], now_us=NOW_US)


def test_a_camera_cannot_vouch_for_another() -> None:
    thief = SignerKey("gate", SecretBytes(bytes(range(32))))  # the camera's own key, used as an authority's
    with pytest.raises(UsageError, match="not that of an authority"):
        Authority(thief, CHAIN)
    forged = (
        x509.CertificateBuilder()
        .subject_name(x509_profile.x509_name("roof"))
        .issuer_name(CHAIN[0].subject)
        .public_key(CHAIN[0].public_key())
        .serial_number(7)
        .not_valid_before(CHAIN[0].not_valid_before_utc)
        .not_valid_after(CHAIN[0].not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509_profile.usage(is_authority=False), critical=True)
        .sign(x509_profile.private_key(GATE.seed), None)
    )
    with pytest.raises(AuthenticationFailed, match="gate may not vouch"):
        check(chain=(forged, *CHAIN))


def test_a_site_vouches_for_cameras_only() -> None:
    with pytest.raises(UsageError, match="cameras only"):
        SITE.certify_authority(SignerKey.generate("below").public, now_us=NOW_US)


def test_a_changed_certificate_is_found() -> None:
    der = bytearray(CHAIN[0].public_bytes(Encoding.DER))
    place = der.index(b"gate") + 3
    der[place] ^= 1
    changed = x509.load_der_x509_certificate(bytes(der))
    with pytest.raises(AuthenticationFailed, match="not signed by site"):
        check(chain=(changed, *CHAIN[1:]))


def test_a_site_certificate_is_no_cameras() -> None:
    with pytest.raises(FormatError, match="not a camera's"):
        check(chain=SITE.chain)


def test_certificates_do_not_outlive_their_authority() -> None:
    with pytest.raises(UsageError, match="certified until"):
        SITE.certify_camera(GATE.public, now_us=NOW_US, days=3000)


def test_a_request_proves_that_the_camera_has_the_key() -> None:
    pem = certification_request(GATE)
    assert parse_request(pem) == GATE.public
    request = x509.load_pem_x509_csr(pem).public_bytes(Encoding.DER)
    changed = x509.load_der_x509_csr(request.replace(b"gate", b"date")).public_bytes(Encoding.PEM)
    with pytest.raises(AuthenticationFailed, match="does not have the key"):
        parse_request(changed)


@pytest.mark.parametrize("reason", RevocationReason)
def test_a_revoked_camera_is_told_with_reason_and_date(reason: RevocationReason) -> None:
    found = check(crl(SITE, CHAIN[0], reason=reason), crl(ROOT))
    assert [(r.name, r.reason, r.since_us) for r in found.revocations] == [("gate", reason, NOW_US + DAY_US)]
    assert found.notes == ()


def test_a_revoked_site_takes_its_cameras_along() -> None:
    found = check(crl(SITE), crl(ROOT, SITE.chain[0], reason=RevocationReason.CA_COMPROMISE))
    assert [revocation.name for revocation in found.revocations] == ["site"]


def test_a_new_list_keeps_what_the_old_one_had() -> None:
    roof = SITE.certify_camera(CameraKey.generate("roof").public, now_us=NOW_US)
    first = crl(SITE, CHAIN[0])
    second = crl(SITE, roof[0], before=first)
    assert {entry.serial_number for entry in second} == {CHAIN[0].serial_number, roof[0].serial_number}
    assert second.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 2


def test_a_list_that_somebody_else_signed_is_refused() -> None:
    fake_site = SignerKey("site", SecretBytes(b"f" * 32))
    fake = Authority(fake_site, OTHER_ROOT.certify_authority(fake_site.public, now_us=NOW_US))
    forged = crl(fake, fake.certify_camera(GATE.public, now_us=NOW_US)[0])
    with pytest.raises(AuthenticationFailed, match="revocation list: not signed by site"):
        check(forged)
    with pytest.raises(AuthenticationFailed, match="not that of site"):
        crl(SITE, CHAIN[0], before=forged)


def test_a_list_that_is_out_of_date_is_noted() -> None:
    late = certified_camera(CHAIN, ROOT.chain[0], [crl(SITE), crl(ROOT)], now_us=NOW_US + 400 * DAY_US)
    assert late.notes == (
        "the revocation list of site is out of date; get a new one",
        "the revocation list of root is out of date; get a new one",
    )


def test_an_authority_revokes_only_its_own() -> None:
    with pytest.raises(UsageError, match="not one of root"):
        crl(ROOT, CHAIN[0])


def test_openssl_verifies_the_chain_and_the_revocation(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("required: openssl is not installed")
    (tmp_path / "root.pem").write_bytes(to_pem(ROOT.chain))
    (tmp_path / "site.pem").write_bytes(to_pem(CHAIN[1:2]))
    (tmp_path / "gate.pem").write_bytes(to_pem(CHAIN[:1]))
    (tmp_path / "crls.pem").write_bytes(
        crl(SITE, CHAIN[0]).public_bytes(Encoding.PEM) + crl(ROOT).public_bytes(Encoding.PEM)
    )

    def openssl(*options: str) -> str:
        at = str((NOW_US + 3 * DAY_US) // 1_000_000)
        command = [
            "openssl",
            "verify",
            "-attime",
            at,
            "-CAfile",
            "root.pem",
            "-untrusted",
            "site.pem",
            *options,
        ]
        done = subprocess.run(
            [*command, "-x509_strict", "gate.pem"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    assert openssl() == "gate.pem: OK\n"
    assert "certificate revoked" in openssl("-crl_check_all", "-CRLfile", "crls.pem")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 255), st.binary(max_size=200))
def test_broken_certificates_lists_and_requests_raise_only_errors_of_ours(
    place: int, byte: int, data: bytes
) -> None:
    der = [
        (CHAIN[0].public_bytes(Encoding.DER), "CERTIFICATE"),
        (_CRL.public_bytes(Encoding.DER), "X509 CRL"),
        (x509.load_pem_x509_csr(_CSR).public_bytes(Encoding.DER), "CERTIFICATE REQUEST"),
    ]
    for good, kind in der:
        broken = bytearray(good)
        broken[place % len(good)] = byte
        for each in (_pem(bytes(broken), kind), _pem(data, kind), data):
            with contextlib.suppress(FormatError, AuthenticationFailed):
                check(chain=parse_chain(each, where="x"))
            with contextlib.suppress(FormatError, AuthenticationFailed):
                check(parse_crl(each, where="x"))
            with contextlib.suppress(FormatError, AuthenticationFailed):
                parse_request(each)


_CRL = crl(SITE, CHAIN[0])
_CSR = certification_request(GATE)


def _pem(der: bytes, kind: str) -> bytes:
    body = base64.encodebytes(der).decode()
    return f"-----BEGIN {kind}-----\n{body}-----END {kind}-----\n".encode()
