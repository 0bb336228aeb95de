"""``exec:`` keys: a program asks a key service for us (docs/keys.md, "Writing a key plug-in").

    exec:/usr/libexec/veilcam-kms?key=custody-2026&arg=--region&arg=eu

One process per question. It gets one line of JSON on standard input and answers with one on standard output:

    {"veilcam":1,"do":"describe","key":"custody-2026"}
    {"ok":true,"name":"custody","suite":"p256","public":"<base64>","can":"agree"}

    {"veilcam":1,"do":"agree","key":"custody-2026","suite":"p256","peer":"<base64>"}
    {"ok":true,"secret":"<base64 of 32 bytes>"}

    {"veilcam":1,"do":"unwrap","key":"custody-2026","wrapped":"<base64>","info":"<base64>"}
    {"ok":false,"error":"denied","message":"two approvals are missing"}

``agree`` is a bare Diffie-Hellman (AWS KMS DeriveSharedSecret, a smart card); ``unwrap`` is all of HPKE
(services that know it, also for the hybrid suite). The program is trusted as much as a key file; what it says
is bounded and checked all the same.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from base.errors import (
    AuthenticationFailed,
    KeyUnavailable,
    LimitExceeded,
    Malformed,
    Truncated,
    UnknownVersion,
    UsageError,
)
from keys import uri
from keys.agreement import AgreedIdentity
from keys.names import is_valid_name
from keys.recipient import Recipient
from keys.schedule import KEY_BYTES
from keys.secret import SecretBytes, Unshareable
from keys.suite import Suite
from keys.wrap import Unwrapper

PROTOCOL = 1
MAX_ANSWER_BYTES = 16 * 1024
DEFAULT_TIMEOUT_S = 60
MAX_TIMEOUT_S = 600
_MAX_MESSAGE = 200
_WITHHELD_VARIABLES = ("VEILCAM_PASSPHRASE",)


@final
@dataclass(frozen=True, slots=True)
class ExecUri:
    """Which program, with which arguments, for which key."""

    program: Path
    key: str
    arguments: tuple[str, ...] = ()
    timeout_s: int = DEFAULT_TIMEOUT_S

    @classmethod
    def parse(cls, text: str) -> ExecUri:
        """Read ``exec:/PROGRAM?key=NAME&arg=...&timeout-s=N``.

        Raises:
            FormatError: it is damaged or too long.
            UsageError: the program is no absolute path, or ``key`` is missing.
        """
        parsed = uri.KeyUri.parse(text)
        path, pairs = parsed.split_query()
        program = Path(uri.decode(path, what="exec: URI"))
        if parsed.scheme is not uri.Scheme.EXEC or not program.is_absolute():
            message = "exec: URI: expected exec: and the absolute path of a program"
            raise UsageError(message)
        arguments = tuple(value for name, value in pairs if name == "arg")
        rest = uri.only([p for p in pairs if p[0] != "arg"], "key", "timeout-s", what="exec: URI")
        if not rest.get("key"):
            message = "exec: URI: expected ?key=NAME"
            raise UsageError(message)
        return cls(program, rest["key"], arguments, _timeout(rest.get("timeout-s", str(DEFAULT_TIMEOUT_S))))


def open_exec(text: str) -> Unwrapper:
    """Ask the program what its key is and return it.

    Raises:
        KeyUnavailable: it cannot be started, refuses, or does not answer in time.
        FormatError: its answer is none.
        UsageError: the URI is no ``exec:`` URI.
    """
    plugin = _Plugin(ExecUri.parse(text))
    answer = plugin.ask("describe")
    recipient = _recipient(answer)
    can = answer.get("can")
    if can == "agree":
        return AgreedIdentity(recipient, lambda peer: plugin.agree(recipient.suite, peer))
    if can == "unwrap":
        return _RemoteIdentity(recipient, plugin)
    message = "key plug-in: expected that it can agree or unwrap"
    raise Malformed(message)


@final
class _RemoteIdentity(Unshareable):
    """An opener whose whole unwrapping happens in the plug-in."""

    __slots__ = ("_plugin", "_recipient")

    def __init__(self, recipient: Recipient, plugin: _Plugin) -> None:
        self._recipient = recipient
        self._plugin = plugin

    @property
    def recipient(self) -> Recipient:
        return self._recipient

    def unwrap(self, wrapped: bytes, info: bytes) -> SecretBytes:
        return _secret(self._plugin.ask("unwrap", wrapped=_text(wrapped), info=_text(info)))


class _Plugin:
    def __init__(self, where: ExecUri) -> None:
        self._where = where

    def agree(self, suite: Suite, peer: bytes) -> SecretBytes:
        return _secret(self.ask("agree", suite=suite.label, peer=_text(peer)))

    def ask(self, do: str, **fields: str) -> dict[str, object]:
        """Run the program once; returns an answer with ``ok`` true."""
        request = {"veilcam": PROTOCOL, "do": do, "key": self._where.key, **fields}
        answer = parse_answer(self._run(json.dumps(request).encode() + b"\n"))
        if answer["ok"] is True:
            return answer
        reason = f"{_shown(answer.get('error'))}: {_shown(answer.get('message'))}".strip(": ")
        message = f"key plug-in {self._where.program.name}: {reason or 'it refuses'}"
        if answer.get("error") == "does not open":
            raise AuthenticationFailed(message)
        raise KeyUnavailable(message)

    def _run(self, request: bytes) -> bytes:
        name = self._where.program.name
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_WITHHELD_VARIABLES)}
        try:
            # The user's own configuration names the program; there is no shell in between.
            process = subprocess.Popen(  # noqa: S603
                [str(self._where.program), *self._where.arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                close_fds=True,
            )
        except OSError as error:
            message = f"key plug-in {name}: cannot be started ({error.strerror})"
            raise KeyUnavailable(message) from error
        with process:
            try:
                return self._converse(process, request)
            finally:
                # It has said all it may say; a plug-in that lingers would keep its service's session open.
                process.kill()

    def _converse(self, process: subprocess.Popen[bytes], request: bytes) -> bytes:
        assert process.stdin is not None  # noqa: S101  # both are pipes
        assert process.stdout is not None  # noqa: S101
        with contextlib.suppress(BrokenPipeError):  # it may answer without reading
            process.stdin.write(request)
            process.stdin.close()
        deadline_s = time.monotonic() + self._where.timeout_s
        answer = b""
        while len(answer) <= MAX_ANSWER_BYTES:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([process.stdout], [], [], left_s)[0]:
                message = f"key plug-in {self._where.program.name}: no answer in {self._where.timeout_s} s"
                raise KeyUnavailable(message)
            block = os.read(process.stdout.fileno(), MAX_ANSWER_BYTES + 1)
            answer += block
            if not block or b"\n" in block:
                break
        return answer


def parse_answer(data: bytes) -> dict[str, object]:
    """Read a plug-in's answer: one JSON object on one line, with a boolean ``ok``.

    Raises:
        FormatError: it is something else, or longer than 16 KiB.
    """
    if len(data) > MAX_ANSWER_BYTES:
        message = f"key plug-in: answer longer than {MAX_ANSWER_BYTES} bytes"
        raise LimitExceeded(message)
    line, newline, _ = data.partition(b"\n")
    if not newline:
        message = "key plug-in: it ended without an answer of one line"
        raise Truncated(message)
    try:
        answer = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        message = "key plug-in: its answer is not JSON"
        raise Malformed(message) from None
    if not isinstance(answer, dict) or not isinstance(answer.get("ok"), bool):
        message = "key plug-in: expected an object with ok true or false"
        raise Malformed(message)
    return answer


def _recipient(answer: dict[str, object]) -> Recipient:
    name, label = answer.get("name"), answer.get("suite")
    suite = Suite.from_label(label) if isinstance(label, str) else None
    if suite is None:
        message = f"key plug-in: suite {_shown(label)}, expected one of {', '.join(s.label for s in Suite)}"
        raise UnknownVersion(message)
    if not isinstance(name, str) or not is_valid_name(name):
        message = "key plug-in: expected the name of a key"
        raise Malformed(message)
    return Recipient(name, suite, _binary(answer, "public", suite.public_bytes))


def _secret(answer: dict[str, object]) -> SecretBytes:
    return SecretBytes(_binary(answer, "secret", KEY_BYTES))


def _binary(answer: dict[str, object], field: str, length: int) -> bytes:
    value = answer.get(field)
    try:
        data = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except ValueError:
        data = b""
    if len(data) != length:
        message = f"key plug-in: field {field}: expected base64 of {length} bytes"
        raise Malformed(message)
    return data


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _shown(value: object) -> str:
    """Text of a plug-in, safe on a terminal."""
    return "".join(c for c in str(value)[:_MAX_MESSAGE] if c.isprintable()) if isinstance(value, str) else ""


def _timeout(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_TIMEOUT_S:
        message = f"exec: URI: timeout-s: expected 1 to {MAX_TIMEOUT_S}"
        raise Malformed(message)
    return int(text[:9])
