"""RFC 3161 time stamps: an authority's word that something existed at a time; extra ``timestamp``.

Stamped are the list of sums of a bundle, and recordings: there the stamp is over the last verified segment's
signature digest. Each segment names the one before it, so that one stamp bounds the age of all of a stream
up to there, survives remuxing, and holds for a clip that contains the stamped segment. The camera's clock is
only as good as the camera; a stamp is as good as its authority.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

from base.errors import AuthenticationFailed, Malformed, MissingDependency, PeerError, UsageError
from base.files import read_bounded
from forensics.canonical import JsonObject
from forensics.report import SegmentRow, VerificationReport
from forensics.selection import iso_time

MAX_STAMP_BYTES = 64 * 1024
CLOCK_DOUBT_US = 300_000_000
"""A camera's clock may be five minutes ahead before a stamp contradicts it."""

_MAX_PEM_BYTES = 256 * 1024
_TIMEOUT_S = 15.0
_LABEL = b"veilcam segment stamp v1"
_NO_STAMP = "stamp file: expected what `veilcam verify --stamp-with` writes"
_STAMP_TYPE = "veilcam stamp"


def _library() -> ModuleType:
    try:
        import rfc3161_client  # noqa: PLC0415  # an extra
    except ImportError as error:
        message = "time stamps need the extra `timestamp`: pip install 'veilcam[timestamp]'"
        raise MissingDependency(message) from error
    return rfc3161_client


@dataclass(frozen=True, slots=True)
class Stamp:
    """A stamp that was checked.

    Attributes:
        time_us: Unix microseconds, by the authority's clock.
        authority: common name in its certificate.
        covers_all: of a recording: every verified segment of it existed then.
    """

    time_us: int
    authority: str
    covers_all: bool = False

    @property
    def time(self) -> str:
        """ISO 8601."""
        return iso_time(self.time_us)

    def as_json(self) -> JsonObject:
        """Return it as a JSON object."""
        return {"time": self.time, "authority": self.authority}


class Authority:
    """A time-stamp authority behind an HTTP URL (RFC 3161, section 3.4)."""

    def __init__(self, url: str) -> None:
        """Take its URL.

        Raises:
            UsageError: not http or https.
            MissingDependency: the extra is not installed.
        """
        if urlsplit(url).scheme not in ("http", "https"):
            message = f"time-stamp authority: expected an http or https URL, got {url[:80]!r}"
            raise UsageError(message)
        _library()
        self._url = url

    def stamp(self, message: bytes) -> bytes:
        """Ask for a stamp over ``message``, of which only the SHA-256 leaves this machine.

        Returns:
            The response, DER, as `check` takes it.

        Raises:
            PeerError: no answer, a refusal, or a stamp over something else.
        """
        library = _library()
        query = library.TimestampRequestBuilder(message, library.HashAlgorithm.SHA256).build()
        data = self._post(query.as_bytes())
        try:
            response = library.decode_timestamp_response(data)
            granted = response.status == library.PKIStatus.GRANTED.value
            fits = granted and response.tst_info.message_imprint.message == query.message_imprint.message
            is_fresh = granted and response.tst_info.nonce == query.nonce
        except (ValueError, TypeError) as error:
            text = f"{_shown(self._url)}: the answer is no time stamp"
            raise PeerError(text) from error
        if not (fits and is_fresh):
            text = f"{_shown(self._url)}: refused, or stamped something else"
            raise PeerError(text)
        return data

    def _post(self, query: bytes) -> bytes:
        request = urllib.request.Request(  # noqa: S310  # http(s) only: checked above
            self._url, query, {"Content-Type": "application/timestamp-query"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310  # as above
                data: bytes = answer.read(MAX_STAMP_BYTES + 1)
        except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
            message = f"{_shown(self._url)}: no time stamp: {type(error).__name__}"
            raise PeerError(message) from error
        if len(data) > MAX_STAMP_BYTES:
            message = f"{_shown(self._url)}: answer above {MAX_STAMP_BYTES} bytes"
            raise PeerError(message)
        return data


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}"


def check(stamp: bytes, message: bytes, roots: Path) -> Stamp:
    """Verify a stamp over ``message`` up to one of the certificates in a PEM file.

    Raises:
        AuthenticationFailed: it is over something else, or its signature or chain does not verify.
        Malformed: it is no stamp.
        UsageError: the file holds no certificate.
        MissingDependency: the extra is not installed.
    """
    library = _library()
    try:
        certificates = x509.load_pem_x509_certificates(read_bounded(roots, _MAX_PEM_BYTES))
    except ValueError as error:
        message_ = f"{roots.name}: expected certificates in PEM"
        raise UsageError(message_) from error
    if len(stamp) > MAX_STAMP_BYTES:
        message_ = f"time stamp: {len(stamp)} bytes, limit is {MAX_STAMP_BYTES}"
        raise Malformed(message_)
    try:
        response = library.decode_timestamp_response(stamp)
        moment, authority = response.tst_info.gen_time, _authority(response.signed_data.certificates)
    except (ValueError, TypeError) as error:
        message_ = "time stamp: not an RFC 3161 response"
        raise Malformed(message_) from error
    builder = library.VerifierBuilder()
    for certificate in certificates:
        builder = builder.add_root_certificate(certificate)
    try:
        builder.build().verify_message(response, message)
    except (library.VerificationError, ValueError) as error:
        message_ = f"time stamp: does not verify: {error}"
        raise AuthenticationFailed(message_) from error
    return Stamp(round(moment.timestamp() * 1_000_000), authority)


def _authority(certificates: set[bytes]) -> str:
    """The name of the certificate that is no authority's own: the stamper's."""
    for data in sorted(certificates):
        certificate = x509.load_der_x509_certificate(data)
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        try:
            is_ca = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            is_ca = False
        if names and not is_ca:
            return str(names[0].value)
    return "unnamed"


def stamp_recording(report: VerificationReport, authority: Authority) -> bytes:
    """Have the last verified segment of a recording stamped; returns the content of a .stamp file.

    Raises:
        UsageError: no segment of it verifies.
        PeerError: as `Authority.stamp`.
    """
    row = next((row for row in reversed(report.segments) if row.digest is not None), None)
    if row is None:
        message = f"{report.input.name}: no verified segment to have stamped"
        raise UsageError(message)
    document = {
        "type": _STAMP_TYPE,
        "v": 1,
        "camera": row.camera_id,
        "stream": row.stream_id,
        "index": row.index,
        "digest": row.digest,
        "token": authority.stamp(_message(row)).hex(),
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def check_recording(report: VerificationReport, stamp: bytes, roots: Path) -> tuple[Stamp, str]:
    """Check a .stamp file against a verified recording.

    Returns:
        The stamp, and a sentence for people: what it covers, and what it says about the camera's clock.

    Raises:
        AuthenticationFailed: the stamped segment is not in the recording, or as `check`.
        Malformed: it is no .stamp file.
    """
    try:
        document = json.loads(stamp[: 4 * MAX_STAMP_BYTES])
        is_ours = document["type"] == _STAMP_TYPE and document["v"] == 1
        token = bytes.fromhex(document["token"])
        wanted = (document["stream"], document["index"], document["digest"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed(_NO_STAMP) from error
    if not is_ours:
        raise Malformed(_NO_STAMP)
    row = next((r for r in report.segments if (r.stream_id, r.index, r.digest) == wanted), None)
    if row is None:
        message = "time stamp: is over a segment that is not in this recording, or does not verify"
        raise AuthenticationFailed(message)
    found = check(token, _message(row), roots)
    covered = [r for r in report.segments if r.stream_id == row.stream_id and r.digest is not None]
    count = sum(1 for each in covered if each.index is not None and each.index <= (row.index or 0))
    text = f"{count} segments up to {row.name} existed at {found.time}, says {found.authority}"
    if row.end_us is not None and row.end_us > found.time_us + CLOCK_DOUBT_US:
        ahead = (row.end_us - found.time_us) / 1e6
        text += f"; the camera's clock was at least {ahead:.0f} s ahead"
    verified = [each for each in report.segments if each.digest is not None]
    return replace(found, covers_all=count == len(verified)), text


def _message(row: SegmentRow) -> bytes:
    """What is stamped: label | camera id | stream id | segment index u64 | signature digest."""
    ids = bytes.fromhex((row.camera_id or "") + (row.stream_id or ""))
    return _LABEL + ids + (row.index or 0).to_bytes(8, "big") + bytes.fromhex(row.digest or "")
