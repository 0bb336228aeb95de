"""Keys: secrets, recipients, cameras, epochs and the key schedule. No media, no machine learning.

camera.py     who signs: CameraKey, CameraPublic
recipient.py  who may open: Recipient, Identity (suite.py: their HPKE suites)
epoch.py      Epoch, EpochRing: one random key for a while, wrapped to all recipients
schedule.py   EpochKey to SegmentKeys to the cipher of a layer
source.py     KeySource: where segment keys come from, an identity or a grant
grant.py      Grant: the keys of some segments, sealed to one investigator
store.py      NAME.recipient, NAME.identity, NAME.camera, NAME.pub
backends.py   open_identity: a private key by URI, in a file, a token (pkcs11:), a service (exec:)
"""

from __future__ import annotations

from keys.backends import open_identity
from keys.camera import CameraKey, CameraPublic
from keys.epoch import Epoch, EpochRing
from keys.grant import Grant, OpenedGrant
from keys.grant_terms import GrantRequest
from keys.recipient import Identity, Recipient
from keys.schedule import EpochKey, RegionKeys, SegmentKeys
from keys.secret import SecretBytes
from keys.source import IdentityKeys, KeySource
from keys.stanza import Stanza
from keys.wrap import unwrap_epoch_key, wrap_epoch_key

__all__ = [
    "CameraKey",
    "CameraPublic",
    "Epoch",
    "EpochKey",
    "EpochRing",
    "Grant",
    "GrantRequest",
    "Identity",
    "IdentityKeys",
    "KeySource",
    "OpenedGrant",
    "Recipient",
    "RegionKeys",
    "SecretBytes",
    "SegmentKeys",
    "Stanza",
    "open_identity",
    "unwrap_epoch_key",
    "wrap_epoch_key",
]
