#!/usr/bin/env python3
"""A key plug-in for ``exec:`` in one file, to copy from (docs/keys.md says what it has to answer).

    VEILCAM_EXAMPLE_KEYS=/var/lib/kms python3 -m keys.plugins.example      (one request on standard input)
    exec:/usr/bin/python3?arg=-m&arg=keys.plugins.example&key=custody-2026

It stands in for a key service: KEY.pem in the folder VEILCAM_EXAMPLE_KEYS is a P-256 private key (PKCS#8), of
which it gives out the public half and Diffie-Hellman values, never itself. A file ``KEY.locked`` beside it
makes it say no, as a service does when an approval is missing. Uses nothing of veilcam; in your plug-in, put
your service's calls in place of `public_key` and `agree`.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

MAX_REQUEST_BYTES = 16 * 1024


class Refusal(Exception):  # noqa: N818  # what it is called in the protocol
    """Becomes ``{"ok":false,"error":...,"message":...}``."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.answer = {"ok": False, "error": error, "message": message}


def main() -> int:
    """Answer the one request on standard input."""
    try:
        answer = respond(json.loads(sys.stdin.buffer.readline(MAX_REQUEST_BYTES)))
    except Refusal as refusal:
        answer = refusal.answer
    except (ValueError, KeyError, TypeError):
        answer = {"ok": False, "error": "failed", "message": "not a request that this plug-in knows"}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


def respond(request: dict[str, str]) -> dict[str, object]:
    """Return the answer to one request."""
    key = load(request["key"])
    if request["do"] == "describe":
        public = base64.b64encode(public_key(key)).decode()
        return {"ok": True, "name": request["key"], "suite": "p256", "public": public, "can": "agree"}
    if request["do"] == "agree" and request["suite"] == "p256":
        secret = agree(key, base64.b64decode(request["peer"], validate=True))
        return {"ok": True, "secret": base64.b64encode(secret).decode()}
    raise Refusal("failed", f"cannot {request['do']!r:.20}")


def load(name: str) -> ec.EllipticCurvePrivateKey:
    """Find the key, if it may be used now."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) is None:
        raise Refusal("no such key", "not the name of a key")
    folder = Path(os.environ.get("VEILCAM_EXAMPLE_KEYS", "."))
    if (folder / f"{name}.locked").exists():
        raise Refusal("denied", "the key is locked")
    try:
        key = load_pem_private_key((folder / f"{name}.pem").read_bytes(), None)
    except OSError:
        raise Refusal("no such key", "there is no key of that name") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Refusal("no such key", "not a P-256 key")
    return key


def public_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the uncompressed point, 65 bytes."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def agree(key: ec.EllipticCurvePrivateKey, peer: bytes) -> bytes:
    """Return the Diffie-Hellman value: the x-coordinate, 32 bytes."""
    return key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), peer))


if __name__ == "__main__":
    sys.exit(main())
