"""Writes the key files of this folder. Run once per file version: the files are frozen, readers must keep up.

python -m tests.keys.vectors.make
"""

from __future__ import annotations

from pathlib import Path

from keys import CameraKey, Identity, SecretBytes
from keys.store import save_camera, save_camera_public, save_identity, save_recipient
from keys.suite import Suite

PASSPHRASE = "Gr\u00fc\u00dfe aus der Kammer"
FOLDER = Path(__file__).parent


def main() -> None:
    """Write every file anew; existing private ones are refused."""
    for name, suite in (("hybrid", Suite.MLKEM768_X25519), ("plain", Suite.X25519)):
        identity = Identity(name, suite, SecretBytes(bytes(range(32))))
        save_identity(FOLDER, identity, PASSPHRASE, log2_n=10)
        save_recipient(FOLDER, identity.recipient)
    camera = CameraKey("door", SecretBytes(bytes(range(32, 64))))
    save_camera(FOLDER, camera)
    save_camera_public(FOLDER, camera.public)


if __name__ == "__main__":
    main()
