"""A camera's key sealed to the machine by its TPM 2.0, by the programs of tpm2-tools.

The TPM encrypts the 32 bytes of the key to a primary key that never leaves it (owner hierarchy, NIST P-256,
derived anew each time from the TPM's own seed), so that the file opens on this machine alone. With PCRs,
only while they have the values that they had when the key was sealed: the machine was started with the same
firmware and programs. What the file does not withstand: root on the running camera, who can ask the TPM as we
do, and somebody who listens on the wires between the processor and a TPM chip of its own.

The key goes through pipes. What lies in files meanwhile (a folder of mode 0700) is what the TPM encrypted.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from base.errors import KeyUnavailable, Malformed, MissingDependency, UsageError
from keys import textfile
from keys.camera import CameraKey, CameraPublic
from keys.ed25519 import PUBLIC_BYTES, SEED_BYTES, draw_seed
from keys.secret import RevealToken, SecretBytes

KIND = "sealed-camera"
_NO_PCRS = "none"
_PCRS = re.compile(r"(sha1|sha256|sha384|sha512):(\d{1,2}(?:,\d{1,2}){0,23})")
_FIELDS = ("name", "id", "key", "pcrs", "tpm-public", "tpm-private")
_MAX_BLOB = 1024
_TIMEOUT_S = 30
_WITHHELD = "VEILCAM_PASSPHRASE"


@final
@dataclass(frozen=True, slots=True)
class SealedCamera:
    """The content of a NAME.camera whose key only this machine's TPM can open.

    Attributes:
        pcrs: such as ``sha256:0,7``, or None: no condition on how the machine was started.
        tpm_public, tpm_private: TPM2B_PUBLIC and TPM2B_PRIVATE of the sealed object.
    """

    public: CameraPublic
    pcrs: str | None
    tpm_public: bytes = field(repr=False)
    tpm_private: bytes = field(repr=False)

    def open(self) -> CameraKey:
        """Ask the TPM for the key.

        Raises:
            KeyUnavailable: another machine's TPM, PCRs with other values, or no TPM.
            MissingDependency: tpm2-tools are not installed.
        """
        with tempfile.TemporaryDirectory(prefix="veilcam-tpm-") as name:
            folder = Path(name)
            (folder / "pub").write_bytes(self.tpm_public)
            (folder / "priv").write_bytes(self.tpm_private)
            _primary(folder)
            parts = ("-C", "primary.ctx", "-u", "pub", "-r", "priv", "-c", "sealed.ctx")
            _tpm("tpm2_load", "-Q", *parts, folder=folder)
            condition = () if self.pcrs is None else ("-p", f"pcr:{self.pcrs}")
            seed = SecretBytes(_tpm("tpm2_unseal", "-c", "sealed.ctx", *condition, folder=folder))
        if len(seed) != SEED_BYTES:
            message = f"TPM: it opened {len(seed)} bytes, expected {SEED_BYTES}"
            raise Malformed(message)
        camera = CameraKey(self.public.name, seed)
        if camera.public.public_key != self.public.public_key:
            message = f"{self.public.name}.camera: the TPM opened another key than the file names"
            raise KeyUnavailable(message)
        return camera

    def __bytes__(self) -> bytes:
        return textfile.render(
            KIND,
            [
                ("name", self.public.name),
                ("id", self.public.camera_id.hex()),
                ("key", textfile.render_bytes(self.public.public_key)),
                ("pcrs", self.pcrs or _NO_PCRS),
                ("tpm-public", textfile.render_bytes(self.tpm_public)),
                ("tpm-private", textfile.render_bytes(self.tpm_private)),
            ],
        )

    @classmethod
    def parse(cls, data: bytes, *, where: str = "sealed camera file") -> SealedCamera:
        """Read the file's content; asks no TPM.

        Raises:
            FormatError: it is something else.
        """
        fields = textfile.parse(data, KIND, _FIELDS, where=where)
        name = textfile.parse_name(fields["name"], where=where)
        key = textfile.parse_bytes(fields["key"], PUBLIC_BYTES, field="key", where=where)
        public = CameraPublic(name, key)
        textfile.check_id(fields["id"], public.camera_id, where=where)
        pcrs = fields["pcrs"]
        if pcrs != _NO_PCRS and not _are_pcrs(pcrs):
            message = f"{where}: field pcrs: expected none, or such as sha256:0,7"
            raise Malformed(message)
        blobs = [_blob(fields[each], each, where) for each in ("tpm-public", "tpm-private")]
        return cls(public, None if pcrs == _NO_PCRS else pcrs, *blobs)


def seal_camera(name: str, pcrs: str | None = None) -> SealedCamera:
    """Draw a camera's key and have the TPM seal it; in the clear it lies on no disk.

    Args:
        name: of the camera.
        pcrs: bank and numbers, such as ``sha256:0,7``.

    Raises:
        UsageError: no such PCRs, or a name that cannot be one.
        KeyUnavailable: no TPM, or it refuses.
        MissingDependency: tpm2-tools are not installed.
    """
    if pcrs is not None and not _are_pcrs(pcrs):
        message = f"PCRs: expected a bank and numbers such as sha256:0,7, got {pcrs[:40]!r}"
        raise UsageError(message)
    camera = CameraKey(name, draw_seed())
    with tempfile.TemporaryDirectory(prefix="veilcam-tpm-") as where:
        folder = Path(where)
        _primary(folder)
        policy: tuple[str, ...] = ()
        if pcrs is not None:
            _tpm("tpm2_createpolicy", "-Q", "--policy-pcr", "-l", pcrs, "-L", "policy", folder=folder)
            policy = ("-L", "policy")
        parts = ("-C", "primary.ctx", "-i", "-", "-u", "pub", "-r", "priv", *policy)
        _tpm("tpm2_create", "-Q", *parts, folder=folder, secret=camera.seed)
        return SealedCamera(
            camera.public, pcrs, (folder / "pub").read_bytes(), (folder / "priv").read_bytes()
        )


def _are_pcrs(text: str) -> bool:
    match = _PCRS.fullmatch(text)
    return match is not None and all(int(number) < 24 for number in match[2].split(","))


def _blob(value: str, field: str, where: str) -> bytes:
    length = len(value) // 4 * 3 - value.count("=")
    if not 0 < length <= _MAX_BLOB:
        message = f"{where}: field {field}: expected base64 of at most {_MAX_BLOB} bytes"
        raise Malformed(message)
    return textfile.parse_bytes(value, length, field=field, where=where)


def _primary(folder: Path) -> None:
    _tpm("tpm2_createprimary", "-Q", "-C", "o", "-G", "ecc256", "-c", "primary.ctx", folder=folder)


def _tpm(program: str, *arguments: str, folder: Path, secret: SecretBytes | None = None) -> bytes:
    """Run one program of tpm2-tools in ``folder``; ``secret`` goes to its input, its output comes back."""
    shown = secret.expose(RevealToken("key to the TPM that seals it")) if secret is not None else b""
    environment = {name: text for name, text in os.environ.items() if not name.startswith(_WITHHELD)}
    try:
        done = subprocess.run(  # noqa: S603  # fixed programs, no shell
            [program, *arguments],
            cwd=folder,
            env=environment,
            input=shown,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if "swtpm" in os.environ.get(
            "TPM2TOOLS_TCTI", ""
        ):  # without a resource manager nobody else tidies up
            for what in ("--transient-object", "--loaded-session"):
                command = ["tpm2_flushcontext", what]
                subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError as error:
        message = f"{program}: not found; a camera key sealed to the TPM needs tpm2-tools"
        raise MissingDependency(message) from error
    except subprocess.TimeoutExpired as error:
        message = f"TPM: no answer in {_TIMEOUT_S} s"
        raise KeyUnavailable(message) from error
    if done.returncode != 0:
        raise KeyUnavailable(_why(program, done.stderr))
    return done.stdout


def _why(program: str, errors: bytes) -> str:
    """The cause, as far as the programs name it."""
    text = errors.decode("ascii", "replace")
    if "policy check failed" in text:
        return "TPM: the PCRs have other values than when the key was sealed"
    if "integrity check failed" in text:
        return "TPM: the key was sealed by another machine's TPM, or the file was changed"
    lines = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.startswith("ERROR: ")]
    cause = next((line for line in lines if "tpm:" in line), lines[0] if lines else "no reason given")
    return f"TPM: {program} failed: {''.join(filter(str.isprintable, cause))[:200]}"
