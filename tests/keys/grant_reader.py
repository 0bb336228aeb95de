"""Opens a grant of an X25519 recipient as docs/format.md section 13 says; imports nothing of the product."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.keys.foreign_hpke import AEAD_AES_256_GCM, KEM_X25519, dhkem_decapsulate, key_schedule

WHOLE = 0xFF


@dataclass(frozen=True)
class Segment:
    stream_id: bytes
    epoch_id: bytes
    index: int
    first_us: int
    last_us: int
    keys: dict[int, bytes]


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_grant(data: bytes, private: bytes) -> tuple[dict[str, Any], list[Segment]]:
    """Head and segments; raises where a signature, a hash or a tag does not fit."""
    line, _, payload = data.partition(b"\n")
    head = json.loads(line)
    assert canonical(head) == line
    assert (head["type"], head["v"]) == ("veilcam grant", 1)
    signed = {name: value for name, value in head.items() if name != "sig"}
    issuer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(head["issuer"]["key"]))
    issuer.verify(bytes.fromhex(head["sig"]), b"veilcam grant issue v1" + canonical(signed))
    request = hashlib.sha256(canonical(head["terms"]["request"])).hexdigest()
    for approval in head["approvals"]:
        assert approval["request"] == request
        part = {name: value for name, value in approval.items() if name != "sig"}
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(approval["by"]["key"]))
        key.verify(bytes.fromhex(approval["sig"]), b"veilcam grant approval v1" + canonical(part))
    assert head["payload"] == {"bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
    terms = hashlib.sha256(canonical(head["terms"])).digest()
    blob = base64.b64decode(head["key"]["blob"])
    schedule = key_schedule(
        KEM_X25519, AEAD_AES_256_GCM, dhkem_decapsulate(private, blob[:32]), b"veilcam grant wrap v1" + terms
    )
    grant_key = AESGCM(schedule.key).decrypt(schedule.base_nonce, blob[32:], b"")
    plain = AESGCM(grant_key).decrypt(bytes(12), payload, b"veilcam grant payload v1" + terms)
    return head, segments(plain)


def segments(plain: bytes) -> list[Segment]:
    place = 0

    def take(count: int) -> bytes:
        nonlocal place
        assert place + count <= len(plain)
        place += count
        return plain[place - count : place]

    found = []
    for _ in range(int.from_bytes(take(4))):
        stream_id, epoch_id = take(16), take(16)
        for _ in range(int.from_bytes(take(4))):
            index = int.from_bytes(take(8))
            first_us, last_us = (int.from_bytes(take(8), signed=True) for _ in range(2))
            keys = {take(1)[0]: take(32) for _ in range(take(1)[0])}
            found.append(Segment(stream_id, epoch_id, index, first_us, last_us, keys))
    assert place == len(plain)
    return found
