"""Every domain-separation label of veilcam, in one table.

A label is the first part of what it goes into (HKDF or HPKE info, hash input, signature input, AAD) and all
parts behind it have a fixed length or carry their length. Labels are ASCII, end in a version and are no
prefix of one another, so that two purposes never see equal input. A published label never changes.
"""

from __future__ import annotations

import enum


class Label(bytes, enum.Enum):
    """Labels by purpose; a member is its bytes."""

    CAMERA_ID = b"veilcam camera id v1"
    """SHA-256 input in front of an Ed25519 public key; the first 16 bytes of the hash name the camera."""

    RECIPIENT_ID = b"veilcam recipient id v1"
    """SHA-256 input in front of suite (u8) and public key; the first 16 bytes name the recipient."""

    EPOCH_WRAP = b"veilcam epoch wrap v1"
    """HPKE info in front of camera id and epoch id."""

    SEGMENT_KEY = b"veilcam segment key v1"
    """HKDF info in front of camera id, stream id, epoch id and segment index (u64): K_e to K_s."""

    SEALED_LAYER = b"veilcam sealed layer v1"
    """HKDF info, alone: K_s to the AES-256-GCM key of the sealed layer."""

    SEALED_REGION = b"veilcam sealed region v1"
    """HKDF info in front of the region's number (u8): K_s to the AES-256-GCM key of one region."""

    PIXELS_LAYER = b"veilcam pixels layer v1"
    """HKDF info, alone: K_s to the AES-256-CTR key of the pixel path."""

    SEALED_CHUNK = b"veilcam sealed chunk v1"
    """AAD of one sealed chunk, in front of what the format binds it to."""

    SEGMENT_SIGNATURE = b"veilcam segment signature v1"
    """Ed25519 input of a segment's signature, in front of the signed record."""

    STREAM_END = b"veilcam end of stream v1"
    """Ed25519 input of the mark behind a stream's last segment, in front of what names that segment."""

    UNIT_DIGEST = b"veilcam access unit v1"
    """SHA-256 input in front of the parts of one signed picture."""

    CHUNK_DIGEST = b"veilcam sealed chunks v1"
    """SHA-256 input in front of one access unit's sealed chunks."""

    PARAMETER_SETS = b"veilcam parameter sets v1"
    """SHA-256 input in front of the SPS and PPS that a segment's header pins."""

    IDENTITY_FILE = b"veilcam identity file v1"
    """AAD of a private identity at rest, in front of the file's own header lines."""

    SIGNER_ID = b"veilcam signer id v1"
    """SHA-256 input in front of a person's Ed25519 public key; the first 16 bytes name the signer."""

    SIGNER_FILE = b"veilcam signer file v1"
    """AAD of a private signing key at rest, in front of the file's own header lines."""

    GRANT_APPROVAL = b"veilcam grant approval v1"
    """Ed25519 input of a custodian's approval, in front of the canonical approval without its signature."""

    GRANT_ISSUE = b"veilcam grant issue v1"
    """Ed25519 input of a grant, in front of its canonical head without the signature."""

    GRANT_WRAP = b"veilcam grant wrap v1"
    """HPKE info in front of the SHA-256 of a grant's canonical terms."""

    GRANT_PAYLOAD = b"veilcam grant payload v1"
    """AAD of a grant's segment keys, in front of the SHA-256 of its canonical terms."""

    GRANT_REVOCATION = b"veilcam grant revocation v1"
    """Ed25519 input of a revocation, in front of the canonical revocation without its signature."""

    LEDGER_ENTRY = b"veilcam ledger entry v1"
    """Ed25519 input of a ledger entry, in front of the 32 bytes of its hash."""

    SHARE_FILE = b"veilcam share file v1"
    """AAD of one person's share at rest, in front of the file's own header lines."""

    SHARE_COMMITMENT = b"veilcam share commitment v1"
    """SHA-256 input in front of the share set's id, the share's index (u8) and the share."""

    OPENING_REQUEST = b"veilcam opening request v1"
    """SHA-256 input in front of the canonical request that share holders approve."""

    SHARE_APPROVAL = b"veilcam share approval v1"
    """HPKE info in front of an opening request's digest and the share's index (u8)."""

    BACKUP_FILE = b"veilcam backup file v1"
    """AAD of a backup of key files, in front of its head."""

    DESTRUCTION_TEST = b"veilcam destruction test v1"
    """HPKE info, alone: the message that a key must open before it is destroyed."""
