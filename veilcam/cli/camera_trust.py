"""The certificates that options name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from base.files import read_bounded
from forensics.camera_trust import CameraTrust
from keys.certified import certified_camera
from keys.x509_profile import MAX_PEM_BYTES, parse_chain, parse_crl
from veilcam.cli.key_files import wrong_kind_is_usage
from veilcam.cli.key_names import moment_us, now_us
from veilcam.cli.paths import existing_file


def camera_trust_from(
    root: Path, certificate: Path, crls: Sequence[Path], seen_before: str | None
) -> CameraTrust:
    """Who the camera is, by ``--root``, ``--certificate``, ``--crl`` and ``--seen-before``.

    Raises:
        UsageError: a file is missing or of another kind, or a time is none.
        AuthenticationFailed: the certificate does not lead to the root, or a list is forged.
    """
    with wrong_kind_is_usage("--root"):
        roots = parse_chain(_read(root, "--root"), where=root.name)
    with wrong_kind_is_usage("--certificate"):
        chain = parse_chain(_read(certificate, "--certificate"), where=certificate.name)
    with wrong_kind_is_usage("--crl"):
        lists = [parse_crl(_read(path, "--crl"), where=path.name) for path in crls]
    camera = certified_camera(chain, roots[-1], lists, now_us=now_us())
    return CameraTrust(camera, moment_us(seen_before, "--seen-before") if seen_before else None)


def _read(path: Path, option: str) -> bytes:
    return read_bounded(existing_file(path, option), MAX_PEM_BYTES)
