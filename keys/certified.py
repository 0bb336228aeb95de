"""Which camera a chain of certificates names, and whether it was revoked: what a verifier needs.

Takes the root that he trusts, the camera's chain (from anywhere) and revocation lists, and gives the camera's
public key with the times between which signatures count. No network, no clock but the one handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from base.errors import AuthenticationFailed, Malformed
from keys import x509_profile as profile
from keys.authority import RevocationReason
from keys.camera import CameraPublic


@final
@dataclass(frozen=True, slots=True)
class Revocation:
    """One certificate of a chain was taken back.

    Attributes:
        name: whose.
        since_us: from when the key is not to be trusted (Unix microseconds).
    """

    name: str
    reason: RevocationReason
    since_us: int
    published_us: int


@final
@dataclass(frozen=True, slots=True)
class CertifiedCamera:
    """A camera that a root vouches for.

    Attributes:
        issuers: names from the camera's authority up to the root.
        serial: of the camera's certificate.
        fingerprint: SHA-256 of the camera's certificate.
        root_fingerprint: SHA-256 of the root's.
        not_before_us: when all certificates of the chain are valid, Unix microseconds, as ``not_after_us``.
        revocations: of any certificate of the chain.
        notes: what a verifier should know: no revocation list, or one out of date.
    """

    public: CameraPublic
    issuers: tuple[str, ...]
    serial: int
    fingerprint: bytes = field(repr=False)
    root_fingerprint: bytes = field(repr=False)
    not_before_us: int
    not_after_us: int
    revocations: tuple[Revocation, ...] = ()
    notes: tuple[str, ...] = ()


def certified_camera(
    chain: Sequence[x509.Certificate],
    root: x509.Certificate,
    crls: Iterable[x509.CertificateRevocationList] = (),
    *,
    now_us: int,
) -> CertifiedCamera:
    """Check ``chain`` (the camera's certificate first) up to ``root``.

    Validity times are not held against ``now_us``: what counts is when the recording was made, and the caller
    knows that. ``now_us`` only tells whether a revocation list is out of date.

    Raises:
        AuthenticationFailed: the chain does not lead to this root, or a revocation list is forged.
        Malformed: the first certificate is not a camera's.
    """
    path = _path(tuple(chain), root)
    with profile.as_format_error("camera certificate"):
        public = _camera_public(path[0])
        names = [profile.common_name(each.subject, "certificate") for each in path]
        revocations, notes = _revocations(path, names, tuple(crls), now_us)
        return CertifiedCamera(
            public,
            tuple(names[1:]),
            path[0].serial_number,
            path[0].fingerprint(hashes.SHA256()),
            root.fingerprint(hashes.SHA256()),
            max(profile.microseconds(each.not_valid_before_utc) for each in path),
            min(profile.microseconds(each.not_valid_after_utc) for each in path),
            revocations,
            notes,
        )


def _path(chain: tuple[x509.Certificate, ...], root: x509.Certificate) -> tuple[x509.Certificate, ...]:
    """The chain as far as needed, ending in ``root``; every link checked."""
    _check_link(root, root, 0)
    path: list[x509.Certificate] = []
    for certificate in chain:
        if path:
            _check_link(path[-1], certificate, len(path) - 1)
        path.append(certificate)
        if certificate == root:
            break
    else:
        _check_link(path[-1], root, len(path) - 1)
        path.append(root)
    if len(path) < 2 or len(path) > profile.MAX_CHAIN:
        message = "certificate chain: expected a camera's certificate and those up to the root"
        raise AuthenticationFailed(message)
    return tuple(path)


def _check_link(subject: x509.Certificate, issuer: x509.Certificate, num_between: int) -> None:
    """RFC 5280, 6.1, as far as the profile goes; ``num_between``: authorities below ``issuer``."""
    with profile.as_format_error("certificate chain"):
        profile.check_profile(subject, "certificate chain")
        profile.check_profile(issuer, "certificate chain")
        name = profile.common_name(issuer.subject, "certificate chain")
        constraints = profile.basic_constraints(issuer)
        may_sign = constraints.ca and profile.key_usage(issuer).key_cert_sign
        length = constraints.path_length
    try:
        subject.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        message = f"certificate chain: not signed by {name}"
        raise AuthenticationFailed(message) from None
    if not may_sign or (length is not None and num_between > length):
        message = f"certificate chain: {name} may not vouch for what it vouches for"
        raise AuthenticationFailed(message)


def _camera_public(certificate: x509.Certificate) -> CameraPublic:
    key = certificate.public_key()
    usage = profile.key_usage(certificate)
    is_camera = not profile.basic_constraints(certificate).ca and usage.digital_signature
    if not is_camera or not isinstance(key, Ed25519PublicKey):
        message = "camera certificate: it is not a camera's"
        raise Malformed(message)
    public = CameraPublic(
        profile.common_name(certificate.subject, "camera certificate"), key.public_bytes_raw()
    )
    if profile.camera_uri(certificate) != profile.URN + public.camera_id.hex():
        message = "camera certificate: the camera id in it is not that of its key"
        raise Malformed(message)
    return public


def _revocations(
    path: Sequence[x509.Certificate],
    names: Sequence[str],
    crls: Sequence[x509.CertificateRevocationList],
    now_us: int,
) -> tuple[tuple[Revocation, ...], tuple[str, ...]]:
    """Entries for certificates of ``path`` in lists that their issuers signed; what is missing as notes."""
    found: list[Revocation] = []
    notes: list[str] = []
    used: set[int] = set()
    for index, certificate in enumerate(path[:-1]):
        issuer, name = path[index + 1], names[index + 1]
        theirs = [i for i, crl in enumerate(crls) if crl.issuer == issuer.subject]
        used.update(theirs)
        if not theirs:
            notes.append(f"no revocation list of {name} was given")
            continue
        for crl in (crls[i] for i in theirs):
            _check_crl(crl, issuer, name)
        newest = max((crls[i] for i in theirs), key=lambda crl: crl.last_update_utc)
        if newest.next_update_utc is None or profile.microseconds(newest.next_update_utc) < now_us:
            notes.append(f"the revocation list of {name} is out of date; get a new one")
        entries = (
            crls[i].get_revoked_certificate_by_serial_number(certificate.serial_number) for i in theirs
        )
        found += [_revocation(names[index], entry) for entry in entries if entry is not None]
    notes += ["a revocation list of nobody in the chain was given"] if len(used) < len(crls) else []
    return tuple(dict.fromkeys(found)), tuple(notes)


def _check_crl(crl: x509.CertificateRevocationList, issuer: x509.Certificate, name: str) -> None:
    key = issuer.public_key()
    try:
        is_valid = isinstance(key, Ed25519PublicKey) and crl.is_signature_valid(key)
    except (ValueError, TypeError):
        is_valid = False
    if not is_valid:
        message = f"revocation list: not signed by {name}"
        raise AuthenticationFailed(message)


def _revocation(name: str, entry: x509.RevokedCertificate) -> Revocation:
    published_us = since_us = profile.microseconds(entry.revocation_date_utc)
    reason = RevocationReason.UNSPECIFIED
    for extension in entry.extensions:
        if isinstance(extension.value, x509.InvalidityDate):
            since_us = profile.microseconds(extension.value.invalidity_date_utc)
        elif isinstance(extension.value, x509.CRLReason):
            known = {each.value: each for each in RevocationReason}
            reason = known.get(extension.value.reason.value, RevocationReason.UNSPECIFIED)
    return Revocation(name, reason, min(since_us, published_us), published_us)
