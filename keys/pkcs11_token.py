"""``pkcs11:`` keys: the private key stays in a token, which does the key agreement (extra ``pkcs11``).

Curves: P-256, which every token has, and X25519 where the token knows it (as CKK_EC_EDWARDS, SoftHSM's way;
ML-KEM waits until tokens have PKCS#11 3.2). What leaves the token is one Diffie-Hellman value per epoch key.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, final

from base.errors import (
    AuthenticationFailed,
    KeyUnavailable,
    MissingDependency,
    UsageError,
    WrongPassphrase,
)
from base.files import read_bounded
from keys.agreement import AgreedIdentity
from keys.names import is_valid_name
from keys.passphrase import Passphrase, ask
from keys.pkcs11_uri import Pkcs11Uri
from keys.recipient import Recipient
from keys.secret import RevealToken, SecretBytes, Unshareable
from keys.suite import Suite

_Native = Any
"""An object of python-pkcs11, which may not be installed: a token, a key, an attribute."""
MODULE_VARIABLE = "VEILCAM_PKCS11_MODULE"
_DEFAULT_MODULES = (
    Path("/usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-client.so"),
    Path("/usr/lib/x86_64-linux-gnu/p11-kit-proxy.so"),
    Path("/usr/lib/aarch64-linux-gnu/p11-kit-proxy.so"),
    Path("/usr/lib64/p11-kit-proxy.so"),
)
_MAX_PIN_BYTES = 256
_ONE_LOGIN = threading.RLock()
_ID_BYTES = 8
_CURVES = {
    bytes.fromhex("06082a8648ce3d030107"): Suite.P256,  # 1.2.840.10045.3.1.7
    bytes.fromhex("06032b656e"): Suite.X25519,  # 1.3.101.110, RFC 8410
    b"\x13\x0acurve25519": Suite.X25519,  # PKCS#11 3.0, a PrintableString
}
_PARAMETERS = {Suite.P256: "06082a8648ce3d030107", Suite.X25519: "06032b656e"}


@final
class Token(Unshareable):
    """A key in a token, and the PIN to use it. Safe to share between threads.

    Logs in for each operation and out again: a login belongs to the process, not to a session, so that one
    kept open would let a second user of the same token in without a PIN, or throw him out when it ends.
    """

    __slots__ = ("_pin", "where")

    def __init__(self, where: Pkcs11Uri, passphrase: Passphrase) -> None:
        self.where = where
        self._pin = _pin(where, passphrase)

    def __repr__(self) -> str:
        return f"<Token {self.where.token or self.where.serial or ''}>"

    def recipient(self) -> Recipient:
        """Read the public half of the key.

        Raises:
            KeyUnavailable: there is no such key, more than one, or one of another kind.
        """
        pkcs11 = _library()
        with self._session() as session:
            key = self._key(session, pkcs11.ObjectClass.PUBLIC_KEY)
            suite = _CURVES.get(bytes(key[pkcs11.Attribute.EC_PARAMS]))
            point = bytes(key[pkcs11.Attribute.EC_POINT])
            label = str(key.label)
        if suite is None:
            message = "pkcs11: the key is on another curve than P-256 and X25519"
            raise KeyUnavailable(message)
        name = label if is_valid_name(label) else "token"
        return Recipient(name, suite, point[-suite.public_bytes :])

    def agree(self, peer: bytes) -> SecretBytes:
        """Let the token compute the Diffie-Hellman value of its key and ``peer``.

        Raises:
            AuthenticationFailed: the token does not accept the point.
            KeyUnavailable: the token refuses or is gone.
        """
        pkcs11 = _library()
        readable = {
            pkcs11.Attribute.SENSITIVE: False,
            pkcs11.Attribute.EXTRACTABLE: True,
            pkcs11.Attribute.TOKEN: False,
        }
        with self._session() as session:
            key = self._key(session, pkcs11.ObjectClass.PRIVATE_KEY)
            try:
                derived = key.derive_key(
                    pkcs11.KeyType.GENERIC_SECRET,
                    256,
                    mechanism=pkcs11.Mechanism.ECDH1_DERIVE,
                    mechanism_param=(pkcs11.KDF.NULL, None, peer),
                    template=readable,
                )
            except (pkcs11.exceptions.MechanismParamInvalid, pkcs11.exceptions.GeneralError):
                message = "pkcs11: the token does not take the encapsulated key"
                raise AuthenticationFailed(message) from None
            try:
                return SecretBytes(derived[pkcs11.Attribute.VALUE])
            finally:
                derived.destroy()

    def generate(self, name: str, suite: Suite) -> Recipient:
        """Make a key pair in the token, private half not extractable.

        Raises:
            UsageError: there is a key of that label or id already, or a suite that tokens do not have.
            KeyUnavailable: the token cannot.
        """
        if suite not in _PARAMETERS:
            message = f"pkcs11: suite {suite.label}: tokens have {', '.join(s.label for s in _PARAMETERS)}"
            raise UsageError(message)
        pkcs11 = _library()
        where = self.where
        with self._session(writable=True) as session:
            if any(True for _ in session.get_objects(self._template(pkcs11.ObjectClass.PRIVATE_KEY))):
                message = "pkcs11: the token has such a key already; keys are not overwritten"
                raise UsageError(message)
            edwards = suite is Suite.X25519
            kind = pkcs11.KeyType.EC_EDWARDS if edwards else pkcs11.KeyType.EC
            parameters = session.create_domain_parameters(
                kind, {pkcs11.Attribute.EC_PARAMS: bytes.fromhex(_PARAMETERS[suite])}, local=True
            )
            mechanism = (
                pkcs11.Mechanism.EC_EDWARDS_KEY_PAIR_GEN if edwards else pkcs11.Mechanism.EC_KEY_PAIR_GEN
            )
            parameters.generate_keypair(
                mechanism=mechanism,
                store=True,
                label=where.object_label or name,
                id=where.object_id or os.urandom(_ID_BYTES),
                capabilities=pkcs11.MechanismFlag.DERIVE,
                private_template={
                    pkcs11.Attribute.SENSITIVE: True,
                    pkcs11.Attribute.EXTRACTABLE: False,
                    pkcs11.Attribute.PRIVATE: True,
                },
            )
        return self.recipient()

    def destroy(self) -> None:
        """Delete both halves in the token.

        Raises:
            KeyUnavailable: there is no such key, or the token refuses.
        """
        pkcs11 = _library()
        with self._session(writable=True) as session:
            self._key(session, pkcs11.ObjectClass.PRIVATE_KEY).destroy()
            for each in list(session.get_objects(self._template(pkcs11.ObjectClass.PUBLIC_KEY))):
                each.destroy()

    @contextmanager
    def _session(self, *, writable: bool = False) -> Iterator[_Native]:
        with _ONE_LOGIN, _token_errors():
            # The library wants text; it is ours for the length of this call.
            pin = bytes(self._pin.expose(RevealToken("PKCS#11 PIN"))).decode("utf-8", "surrogateescape")
            with _find_token(self.where).open(rw=writable, user_pin=pin) as session:
                yield session

    def _key(self, session: _Native, object_class: _Native) -> _Native:
        return session.get_key(
            object_class=object_class, label=self.where.object_label, id=self.where.object_id
        )

    def _template(self, object_class: _Native) -> dict[_Native, object]:
        pkcs11 = _library()
        template: dict[_Native, object] = {pkcs11.Attribute.CLASS: object_class}
        if self.where.object_label is not None:
            template[pkcs11.Attribute.LABEL] = self.where.object_label
        if self.where.object_id is not None:
            template[pkcs11.Attribute.ID] = self.where.object_id
        return template


def open_pkcs11(text: str, passphrase: Passphrase) -> AgreedIdentity:
    """Log in to the token that ``text`` names and return its key.

    Raises:
        MissingDependency: the extra ``pkcs11`` is not installed.
        WrongPassphrase: not the PIN, or the token is locked.
        KeyUnavailable: no such token or key.
        FormatError, UsageError: the URI.
    """
    token = Token(Pkcs11Uri.parse(text), passphrase)
    return AgreedIdentity(token.recipient(), token.agree)


def _library() -> ModuleType:
    try:
        import pkcs11  # noqa: PLC0415  # an extra
        import pkcs11.exceptions  # noqa: PLC0415
    except ImportError as error:
        message = "pkcs11: keys need the extra pkcs11: pip install 'veilcam[pkcs11]'"
        raise MissingDependency(message) from error
    return pkcs11


def _find_token(where: Pkcs11Uri) -> _Native:
    pkcs11 = _library()
    path = where.module or _default_module()
    try:
        library = pkcs11.lib(str(path))
    except (RuntimeError, pkcs11.exceptions.PKCS11Error) as error:
        message = f"pkcs11: the library {path} cannot be loaded"
        raise KeyUnavailable(message) from error
    found = [
        token
        for slot in library.get_slots(token_present=True)
        if where.slot_id in (None, slot.slot_id) and (token := slot.get_token()) and _fits(token, where)
    ]
    if len(found) != 1:
        message = f"pkcs11: expected one token that fits the URI, got {len(found)}"
        raise KeyUnavailable(message)
    return found[0]


def _fits(token: _Native, where: Pkcs11Uri) -> bool:
    told = (
        (where.token, token.label),
        (where.serial, token.serial),
        (where.manufacturer, token.manufacturer_id),
        (where.model, token.model),
    )
    return all(wanted is None or wanted == _as_text(got) for wanted, got in told)


def _as_text(value: str | bytes) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return text.rstrip(" \0")


def _default_module() -> Path:
    if chosen := os.environ.get(MODULE_VARIABLE):
        return Path(chosen)
    for path in _DEFAULT_MODULES:
        if path.exists():
            return path
    message = f"pkcs11: no library: add ?module-path=/..., or set {MODULE_VARIABLE}"
    raise UsageError(message)


def _pin(where: Pkcs11Uri, passphrase: Passphrase) -> SecretBytes:
    if where.pin_source is not None:
        return SecretBytes(read_bounded(where.pin_source, _MAX_PIN_BYTES).split(b"\n")[0])
    return ask(passphrase, f"token {where.token or where.serial or ''}".strip())


@contextmanager
def _token_errors() -> Iterator[None]:
    pkcs11 = _library()
    errors = pkcs11.exceptions
    try:
        yield
    except (errors.PinIncorrect, errors.PinLenRange, errors.PinInvalid):
        message = "pkcs11: wrong PIN"
        raise WrongPassphrase(message) from None
    except errors.PinLocked:
        message = "pkcs11: the token is locked after too many wrong PINs"
        raise WrongPassphrase(message) from None
    except errors.NoSuchKey:
        message = "pkcs11: the token has no such key"
        raise KeyUnavailable(message) from None
    except errors.MultipleObjectsReturned:
        message = "pkcs11: more than one key fits; name it by id="
        raise KeyUnavailable(message) from None
    except errors.PKCS11Error as error:
        message = f"pkcs11: the token refuses ({type(error).__name__})"
        raise KeyUnavailable(message) from error
