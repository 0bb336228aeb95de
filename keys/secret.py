"""Secret bytes with one exit.

Every key of veilcam that is not a public key lives in a `SecretBytes`. Its content leaves through
`SecretBytes.expose` alone, which asks for a `RevealToken`; so ``grep RevealToken`` finds every place that
handles raw key bytes.

What this does not give: Python and OpenSSL make copies of their own (the argument of a constructor, the
result of a decryption), the kernel may swap, and a debugger sees everything. Zeroing is best effort: it
clears the one buffer that we own.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import NoReturn, final

from base.errors import KeyUnavailable, UsageError

Buffer = bytes | bytearray | memoryview


@final
@dataclass(frozen=True, slots=True)
class RevealToken:
    """A stated reason to look at raw key bytes. Made only where they are needed, never stored."""

    reason: str

    def __post_init__(self) -> None:
        if not self.reason:
            message = "RevealToken: expected a reason, got an empty string"
            raise UsageError(message)


class Unshareable:
    """Base of objects that hold secrets: no pickle, no copy, no content in ``repr``."""

    __slots__ = ()

    def _refuse(self) -> NoReturn:
        message = f"{type(self).__name__} holds a secret and is neither copied nor pickled"
        raise TypeError(message)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce__(self) -> NoReturn:
        self._refuse()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse()

    def __getstate__(self) -> NoReturn:
        self._refuse()

    def __copy__(self) -> NoReturn:
        self._refuse()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._refuse()


@final
class _ClearedBuffer(bytearray):
    """Bytes that are overwritten when the last reference goes, be it the secret's or a view's.

    The secret's own end must not clear them: a view taken from a temporary would turn into zeros, and
    whoever uses it would encrypt under a key of zeros without noticing.
    """

    def wipe(self) -> None:
        """Overwrite with zeros; the length stays, since views may be out."""
        self[:] = bytes(len(self))

    def __repr__(self) -> str:
        return "<cleared buffer>"

    def __del__(self) -> None:
        self.wipe()


@final
class SecretBytes(Unshareable):
    """A short byte string that must not show up anywhere by accident.

    Equality takes constant time for equal lengths. The length is not secret. Hashing is refused, so that
    a secret never becomes a dictionary key.
    """

    __slots__ = ("_data", "_wiped")

    def __init__(self, data: Buffer) -> None:
        self._wiped = False
        self._data = _ClearedBuffer(data)

    def expose(self, token: RevealToken) -> memoryview:
        """Return a read-only view of the bytes, valid until `wipe` even if this object goes.

        A view and not ``bytes``: it makes no copy, and its ``repr`` shows no content where a
        traceback prints local variables.

        Raises:
            UsageError: ``token`` is not a `RevealToken`.
            KeyUnavailable: the secret was wiped.
        """
        if not isinstance(token, RevealToken):
            # Typed callers cannot get here; untyped ones must not get past.
            message = f"expose: expected a RevealToken, got {type(token).__name__}"  # type: ignore[unreachable]
            raise UsageError(message)
        if self._wiped:
            message = "the secret was wiped"
            raise KeyUnavailable(message)
        return memoryview(self._data).toreadonly()

    def wipe(self) -> None:
        """Overwrite our buffer with zeros; later `expose` calls fail. Copies made elsewhere stay."""
        self._wiped = True
        self._data.wipe()

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SecretBytes):
            return NotImplemented
        if self._wiped or other._wiped:
            return False
        return hmac.compare_digest(self._data, other._data)

    __hash__ = None  # type: ignore[assignment]  # unhashable on purpose
