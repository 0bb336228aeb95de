"""Who vouches for cameras: a signing key of a person (`keys.signer`) with a certificate over it.

    root     veilcam keys authority root                    root.signer, root.crt
    site     veilcam keys authority site --under root       site.signer, site.crt (site, root)
    camera   veilcam keys request gate.camera               gate.csr, made on the camera
             veilcam keys certify gate.csr --by site        gate.crt (gate, site, root)

Certificates say which name a camera key has and from when to when; they open nothing. See
`keys.x509_profile`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from base.errors import AuthenticationFailed, LimitExceeded, Malformed, UsageError
from keys import x509_profile as profile
from keys.camera import CameraKey, CameraPublic
from keys.names import checked_name
from keys.secret import Unshareable
from keys.signer import SignerKey, SignerPublic

DAY_US = 86_400_000_000
ROOT_DAYS = 3650
SITE_DAYS = 1825
CAMERA_DAYS = 730
CRL_DAYS = 90
MAX_DAYS = 36_500
MAX_REVOKED = 400
"""What a revocation list of 64 KiB holds; one site has fewer cameras."""


class RevocationReason(enum.Enum):
    """Why a certificate is taken back (RFC 5280, 5.3.1); the value is openssl's word for it."""

    KEY_COMPROMISE = "keyCompromise"
    CA_COMPROMISE = "cACompromise"
    SUPERSEDED = "superseded"
    CESSATION = "cessationOfOperation"
    UNSPECIFIED = "unspecified"

    @property
    def key_may_be_known(self) -> bool:
        """Somebody else may hold the key, so that what it signed proves nothing by itself."""
        return self not in (RevocationReason.SUPERSEDED, RevocationReason.CESSATION)


def certification_request(camera: CameraKey) -> bytes:
    """Make the camera's request for a certificate (PKCS#10, PEM), which proves that it has the key."""
    builder = x509.CertificateSigningRequestBuilder(profile.x509_name(camera.public.name))
    return builder.sign(profile.private_key(camera.seed), None).public_bytes(Encoding.PEM)


def parse_request(pem: bytes, *, where: str = "certification request") -> CameraPublic:
    """Read a camera's request and check that its maker has the key.

    Raises:
        FormatError: it is none.
        AuthenticationFailed: its signature does not verify.
    """
    if len(pem) > profile.MAX_PEM_BYTES:
        message = f"{where}: longer than the limit of {profile.MAX_PEM_BYTES} bytes"
        raise LimitExceeded(message)
    with profile.as_format_error(where):
        request = x509.load_pem_x509_csr(pem)
        key = request.public_key()
        name = profile.common_name(request.subject, where)
        if not isinstance(key, Ed25519PublicKey):
            message = f"{where}: expected a request for an Ed25519 key"
            raise Malformed(message)
        is_valid = request.is_signature_valid
    if not is_valid:
        message = f"{where}: whoever made it does not have the key"
        raise AuthenticationFailed(message)
    return CameraPublic(name, key.public_bytes_raw())


@final
@dataclass(frozen=True, slots=True)
class Authority(Unshareable):
    """A signing key and its certificates, its own first, the root's last."""

    signer: SignerKey
    chain: tuple[x509.Certificate, ...]

    def __post_init__(self) -> None:
        own = self.chain[0]
        if _raw_key(own) != self.signer.public.public_key:
            message = f"authority {self.signer.public.name}: the certificate is not for its key"
            raise UsageError(message)
        if not profile.basic_constraints(own).ca:
            message = f"authority {self.signer.public.name}: its certificate is not that of an authority"
            raise UsageError(message)

    __repr__ = Unshareable.__repr__

    @classmethod
    def root(cls, signer: SignerKey, *, now_us: int, days: int = ROOT_DAYS) -> Authority:
        """Vouch for oneself; hand the certificate to verifiers over a channel that they trust."""
        name = profile.x509_name(signer.public.name)
        builder = _builder(signer.public, now_us, days).issuer_name(name)
        own = profile.private_key(signer.seed)
        builder = _as_authority(builder, path_length=1).add_extension(_issuer_id(signer), critical=False)
        return cls(signer, (builder.sign(own, None),))

    def certify_authority(
        self, public: SignerPublic, *, now_us: int, days: int = SITE_DAYS
    ) -> tuple[x509.Certificate, ...]:
        """Vouch for a site, which may then vouch for cameras; returns its chain.

        Raises:
            UsageError: this authority may not, or is itself not valid that long.
        """
        if profile.basic_constraints(self.chain[0]).path_length == 0:
            message = f"authority {self.signer.public.name}: may vouch for cameras only"
            raise UsageError(message)
        builder = self._signed_by_us(_builder(public, now_us, days))
        return self._finish(_as_authority(builder, path_length=0))

    def certify_camera(
        self, public: CameraPublic, *, now_us: int, days: int = CAMERA_DAYS
    ) -> tuple[x509.Certificate, ...]:
        """Vouch for a camera; returns its chain.

        Raises:
            UsageError: this authority is itself not valid that long.
        """
        uri = x509.UniformResourceIdentifier(profile.URN + public.camera_id.hex())
        builder = (
            self._signed_by_us(_builder(public, now_us, days))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(profile.usage(is_authority=False), critical=True)
            .add_extension(x509.SubjectAlternativeName([uri]), critical=False)
        )
        return self._finish(builder)

    def revoke(
        self,
        before: x509.CertificateRevocationList | None,
        certificates: Sequence[x509.Certificate],
        reason: RevocationReason,
        *,
        since_us: int,
        now_us: int,
        days: int = CRL_DAYS,
    ) -> bytes:
        """Take certificates back; returns the next revocation list (PEM). None of them: renews the list.

        Args:
            before: the list in force; every entry is kept.
            certificates: of this authority.
            reason: what it is worth in evidence depends on this, see `RevocationReason`.
            since_us: from when the key is not to be trusted, or not in use (Unix microseconds).
            now_us: the list's date.
            days: the next list comes before these are over.

        Raises:
            UsageError: a certificate of somebody else, or too many.
            AuthenticationFailed: the list in force is not this authority's.
        """
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.chain[0].subject)
            .last_update(profile.moment(now_us))
            .next_update(profile.moment(now_us + _checked_days(days) * DAY_US))
            .add_extension(_issuer_id(self.signer), critical=False)
            .add_extension(x509.CRLNumber(_crl_number(before) + 1), critical=False)
        )
        entries: dict[int, x509.RevokedCertificate] = {}
        if before is not None:
            if not before.is_signature_valid(profile.private_key(self.signer.seed).public_key()):
                message = f"revocation list: not that of {self.signer.public.name}"
                raise AuthenticationFailed(message)
            entries = {entry.serial_number: entry for entry in before}
        for each in certificates:
            if each.issuer != self.chain[0].subject:
                message = f"revocation: the certificate is not one of {self.signer.public.name}"
                raise UsageError(message)
            entries.setdefault(each.serial_number, _entry(each, reason, since_us, now_us))
        if len(entries) > MAX_REVOKED:
            message = f"revocation list: {len(entries)} entries, limit is {MAX_REVOKED}"
            raise UsageError(message)
        for entry in entries.values():
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(profile.private_key(self.signer.seed), None).public_bytes(Encoding.PEM)

    def _signed_by_us(self, builder: x509.CertificateBuilder) -> x509.CertificateBuilder:
        named = builder.issuer_name(self.chain[0].subject)
        return named.add_extension(_issuer_id(self.signer), critical=False)

    def _finish(self, builder: x509.CertificateBuilder) -> tuple[x509.Certificate, ...]:
        certificate = builder.sign(profile.private_key(self.signer.seed), None)
        own = self.chain[0]
        if certificate.not_valid_after_utc > own.not_valid_after_utc:
            end = own.not_valid_after_utc.date().isoformat()
            message = f"validity: {self.signer.public.name} itself is certified until {end} only; fewer days?"
            raise UsageError(message)
        return (certificate, *self.chain)


def _builder(public: SignerPublic | CameraPublic, now_us: int, days: int) -> x509.CertificateBuilder:
    key = Ed25519PublicKey.from_public_bytes(public.public_key)
    return (
        x509.CertificateBuilder()
        .subject_name(profile.x509_name(checked_name(public.name)))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(profile.moment(now_us))
        .not_valid_after(profile.moment(now_us + _checked_days(days) * DAY_US))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _as_authority(builder: x509.CertificateBuilder, *, path_length: int) -> x509.CertificateBuilder:
    constraints = x509.BasicConstraints(ca=True, path_length=path_length)
    return builder.add_extension(constraints, critical=True).add_extension(
        profile.usage(is_authority=True), critical=True
    )


def _issuer_id(signer: SignerKey) -> x509.AuthorityKeyIdentifier:
    key = Ed25519PublicKey.from_public_bytes(signer.public.public_key)
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key)


def _entry(
    certificate: x509.Certificate, reason: RevocationReason, since_us: int, now_us: int
) -> x509.RevokedCertificate:
    return (
        x509.RevokedCertificateBuilder()
        .serial_number(certificate.serial_number)
        .revocation_date(profile.moment(now_us))
        .add_extension(x509.CRLReason(x509.ReasonFlags(_FLAGS[reason])), critical=False)
        .add_extension(x509.InvalidityDate(profile.moment(since_us).replace(tzinfo=None)), critical=False)
        .build()
    )


_FLAGS = {
    RevocationReason.KEY_COMPROMISE: x509.ReasonFlags.key_compromise,
    RevocationReason.CA_COMPROMISE: x509.ReasonFlags.ca_compromise,
    RevocationReason.SUPERSEDED: x509.ReasonFlags.superseded,
    RevocationReason.CESSATION: x509.ReasonFlags.cessation_of_operation,
    RevocationReason.UNSPECIFIED: x509.ReasonFlags.unspecified,
}


def _crl_number(crl: x509.CertificateRevocationList | None) -> int:
    if crl is None:
        return 0
    try:
        return crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        return 0


def _raw_key(certificate: x509.Certificate) -> bytes:
    key = certificate.public_key()
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else b""


def _checked_days(days: int) -> int:
    if not 1 <= days <= MAX_DAYS:
        message = f"days: expected 1 to {MAX_DAYS}, got {days}"
        raise UsageError(message)
    return days
