"""The X.509 profile of camera certificates: RFC 5280 with Ed25519 (RFC 8410), readable by openssl.

    root       self-signed, CA, keyCertSign and cRLSign
    site       signed by the root, CA, path length 0, same key usage
    camera     signed by a site (or the root), no CA, digitalSignature, subjectAltName
               URI urn:veilcam:camera:<camera id>

Names are one common name. Nothing else in a certificate is looked at; a critical extension that this profile
does not know makes it unusable, as RFC 5280, 4.2 asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID, NameOID

from base.errors import LimitExceeded, Malformed
from keys.names import is_valid_name
from keys.secret import RevealToken, SecretBytes

MAX_PEM_BYTES = 64 * 1024
MAX_CHAIN = 4
URN = "urn:veilcam:camera:"
_UNKNOWN_CRITICAL = "a critical extension that this release does not know"
KNOWN_EXTENSIONS = frozenset(
    {
        ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.KEY_USAGE,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
        ExtensionOID.SUBJECT_KEY_IDENTIFIER,
        ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    }
)


@contextmanager
def as_format_error(where: str) -> Iterator[None]:
    """Turn what the X.509 parser raises into `Malformed`; it reads extensions late, when asked."""
    try:
        yield
    except (
        ValueError,
        TypeError,
        UnsupportedAlgorithm,
        x509.ExtensionNotFound,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
        x509.InvalidVersion,
    ) as error:
        if isinstance(error, Malformed):
            raise
        message = f"{where}: no certificate, request or list of revocations as veilcam makes them"
        raise Malformed(message) from error


def parse_chain(pem: bytes, *, where: str) -> tuple[x509.Certificate, ...]:
    """Read 1 to 4 certificates, the camera's or lowest first.

    Raises:
        LimitExceeded: more than 64 KiB or 4 certificates.
        Malformed: no certificate, or a damaged one.
    """
    if len(pem) > MAX_PEM_BYTES:
        message = f"{where}: longer than the limit of {MAX_PEM_BYTES} bytes"
        raise LimitExceeded(message)
    if pem.count(b"-----BEGIN CERTIFICATE-----") > MAX_CHAIN:
        message = f"{where}: more than {MAX_CHAIN} certificates"
        raise LimitExceeded(message)
    with as_format_error(where):
        chain = tuple(x509.load_pem_x509_certificates(pem))
        for each in chain:
            check_profile(each, where)
    return chain


def parse_crl(pem: bytes, *, where: str) -> x509.CertificateRevocationList:
    """Read a revocation list in PEM form, at most 64 KiB.

    Raises:
        FormatError: it is something else.
    """
    if len(pem) > MAX_PEM_BYTES:
        message = f"{where}: longer than the limit of {MAX_PEM_BYTES} bytes"
        raise LimitExceeded(message)
    with as_format_error(where):
        crl = x509.load_pem_x509_crl(pem)
        if any(each.critical and each.oid != ExtensionOID.CRL_NUMBER for each in crl.extensions):
            message = f"{where}: {_UNKNOWN_CRITICAL}"
            raise Malformed(message)
        # Read all of it now, so that nothing is left to fail later.
        for entry in crl:
            _ = (entry.serial_number, entry.revocation_date_utc, list(entry.extensions))
        _ = (crl.last_update_utc, crl.next_update_utc, common_name(crl.issuer, where))
    return crl


def check_profile(certificate: x509.Certificate, where: str) -> None:
    """Return if the certificate has the form above.

    Raises:
        Malformed: it has not.
    """
    with as_format_error(where):
        if any(each.critical and each.oid not in KNOWN_EXTENSIONS for each in certificate.extensions):
            message = f"{where}: {_UNKNOWN_CRITICAL}"
            raise Malformed(message)
        if not isinstance(certificate.public_key(), Ed25519PublicKey):
            message = f"{where}: expected an Ed25519 certificate"
            raise Malformed(message)
        basic_constraints(certificate)
        key_usage(certificate)
        _ = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
        common_name(certificate.subject, where)


def basic_constraints(certificate: x509.Certificate) -> x509.BasicConstraints:
    """Return the extension; every certificate of ours has it."""
    return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value


def key_usage(certificate: x509.Certificate) -> x509.KeyUsage:
    """Return the extension; every certificate of ours has it."""
    return certificate.extensions.get_extension_for_class(x509.KeyUsage).value


def camera_uri(certificate: x509.Certificate) -> str | None:
    """Return the ``urn:veilcam:camera:`` URI, if there is one."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    uris = [
        each for each in names.get_values_for_type(x509.UniformResourceIdentifier) if each.startswith(URN)
    ]
    return uris[0] if len(uris) == 1 else None


def common_name(name: x509.Name, where: str) -> str:
    """Return the one common name, which must be usable as the name of a key.

    Raises:
        Malformed: there is none, or another one.
    """
    found = [each.value for each in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if len(found) != 1 or not isinstance(found[0], str) or not is_valid_name(found[0]):
        message = f"{where}: expected one common name that could name a key"
        raise Malformed(message)
    return found[0]


def x509_name(name: str) -> x509.Name:
    """Make a name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def usage(*, is_authority: bool) -> x509.KeyUsage:
    """What a key may be used for."""
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def private_key(seed: SecretBytes) -> Ed25519PrivateKey:
    """Return the key as the X.509 builders want it."""
    return Ed25519PrivateKey.from_private_bytes(seed.expose(RevealToken("X.509 signature")))


def to_pem(chain: Sequence[x509.Certificate]) -> bytes:
    """Write certificates one after the other."""
    return b"".join(each.public_bytes(Encoding.PEM) for each in chain)


def moment(time_us: int) -> datetime:
    """Unix microseconds as X.509 has times: whole seconds."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC)


def microseconds(time: datetime) -> int:
    """Turn an aware time into Unix microseconds."""
    return int(time.timestamp()) * 1_000_000 + time.microsecond
