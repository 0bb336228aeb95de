"""The tree of errors that veilcam raises on purpose.

    VeilError
      FormatError            the bytes are wrong
        Truncated              they end too early
        UnknownVersion         a newer format, or not ours
        LimitExceeded          a length is above its documented maximum
        Malformed              anything else that the format does not allow
      KeyUnavailable         we may not or cannot open
        NoMatchingIdentity     none of the given identities is a recipient
        WrongPassphrase        the identity file did not open
        OutsideGrant           the grant does not hold this segment
        GrantRefused           the grant is over, used up, revoked or not for us
      AuthenticationFailed   it does not verify
      MediaError             capture, decode, encode
      PeerError              the other side of a connection misbehaved
      MissingDependency      an optional package is not installed
      UsageError             the caller misused us (also a ValueError)

Messages say what, where, expected and got; never key bytes or clear content.
Only the command line prints and exits.
"""

from __future__ import annotations


class VeilError(Exception):
    """Base of every error that veilcam raises on purpose."""


class FormatError(VeilError):
    """Bytes that the format does not allow."""


class Truncated(FormatError):
    """The bytes end before what they announce."""


class UnknownVersion(FormatError):
    """A format version, or a critical field, that this release does not know."""


class LimitExceeded(FormatError):
    """A length or count above its documented maximum."""


class Malformed(FormatError):
    """Bytes of the right length and version with a content that is not allowed."""


class KeyUnavailable(VeilError):
    """There is no key that may open this."""


class NoMatchingIdentity(KeyUnavailable):
    """None of the identities given is among the recipients."""


class WrongPassphrase(KeyUnavailable):
    """The passphrase does not open the identity file."""


class OutsideGrant(KeyUnavailable):
    """The grant does not hold the key of this segment."""


class GrantRefused(KeyUnavailable):
    """The grant is over, used up, revoked, or not made out to us."""


class AuthenticationFailed(VeilError):
    """A signature or an authentication tag does not verify."""


class MediaError(VeilError):
    """Capturing, decoding or encoding failed."""


class PeerError(VeilError):
    """The other side of a connection misbehaved or went away."""


class MissingDependency(VeilError):
    """An optional package is needed and not installed."""


class UsageError(VeilError, ValueError):
    """The caller asked for something that is not allowed."""
