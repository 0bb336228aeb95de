"""The key files without a passphrase: NAME.recipient, NAME.pub and NAME.camera.

    veilcam-recipient v1     veilcam-camera-public v1     veilcam-camera v1
    name: alice              name: door                   name: door
    suite: mlkem768x25519    id: 32 hex digits            id: 32 hex digits
    id: 32 hex digits        key: base64 of 32 bytes      seed: base64 of 32 bytes
    key: base64 of 1216 bytes

NAME.camera is private and not encrypted: a camera starts without a person. Its protection is the file mode,
which `store` sets and checks.
"""

from __future__ import annotations

from base.errors import Malformed
from keys import textfile
from keys.camera import CameraKey, CameraPublic
from keys.ed25519 import PUBLIC_BYTES, SEED_BYTES
from keys.recipient import Recipient
from keys.secret import RevealToken, SecretBytes

RECIPIENT_KIND = "recipient"
CAMERA_PUBLIC_KIND = "camera-public"
CAMERA_KIND = "camera"


def render_recipient(recipient: Recipient) -> bytes:
    """Write the content of NAME.recipient."""
    return textfile.render(
        RECIPIENT_KIND,
        [
            ("name", recipient.name),
            ("suite", recipient.suite.label),
            ("id", recipient.recipient_id.hex()),
            ("key", textfile.render_bytes(recipient.public_key)),
        ],
    )


def parse_recipient(data: bytes, *, where: str = "recipient file") -> Recipient:
    """Read the content of NAME.recipient.

    Raises:
        FormatError: `textfile.parse` says which; Malformed also for a key that nothing can be encrypted to.
    """
    fields = textfile.parse(data, RECIPIENT_KIND, ("name", "suite", "id", "key"), where=where)
    name = textfile.parse_name(fields["name"], where=where)
    suite = textfile.parse_suite(fields["suite"], where=where)
    key = textfile.parse_bytes(fields["key"], suite.public_bytes, field="key", where=where)
    try:
        recipient = Recipient(name, suite, key)
    except Malformed as error:
        message = f"{where}: field key: {error}"
        raise Malformed(message) from error
    textfile.check_id(fields["id"], recipient.recipient_id, where=where)
    return recipient


def render_camera_public(public: CameraPublic) -> bytes:
    """Write the content of NAME.pub."""
    return textfile.render(
        CAMERA_PUBLIC_KIND,
        [
            ("name", public.name),
            ("id", public.camera_id.hex()),
            ("key", textfile.render_bytes(public.public_key)),
        ],
    )


def parse_camera_public(data: bytes, *, where: str = "camera public file") -> CameraPublic:
    """Read the content of NAME.pub.

    Raises:
        FormatError: `textfile.parse` says which.
    """
    fields = textfile.parse(data, CAMERA_PUBLIC_KIND, ("name", "id", "key"), where=where)
    name = textfile.parse_name(fields["name"], where=where)
    key = textfile.parse_bytes(fields["key"], PUBLIC_BYTES, field="key", where=where)
    public = CameraPublic(name, key)
    textfile.check_id(fields["id"], public.camera_id, where=where)
    return public


def render_camera(camera: CameraKey) -> bytes:
    """Write the content of NAME.camera: a private key, in the clear."""
    seed = textfile.render_bytes(camera.seed.expose(RevealToken("camera file content")))
    return textfile.render(
        CAMERA_KIND, [("name", camera.public.name), ("id", camera.camera_id.hex()), ("seed", seed)]
    )


def parse_camera(data: bytes, *, where: str = "camera file") -> CameraKey:
    """Read the content of NAME.camera.

    Raises:
        FormatError: `textfile.parse` says which.
    """
    fields = textfile.parse(data, CAMERA_KIND, ("name", "id", "seed"), where=where)
    name = textfile.parse_name(fields["name"], where=where)
    seed = textfile.parse_bytes(fields["seed"], SEED_BYTES, field="seed", where=where)
    camera = CameraKey(name, SecretBytes(seed))
    textfile.check_id(fields["id"], camera.camera_id, where=where)
    return camera
