"""Reading settings from a YAML file and from environment variables; what they mean is in camera.settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from base.errors import UsageError
from base.files import read_bounded

ENV_PREFIX = "VEILCAM__"
MAX_CONFIG_BYTES = 64 * 1024
MAX_SECRET_BYTES = 4096
_FOLDERS = (("record", "folder"), ("events", "file"))  # paths whose key does not end in _file
_MAX_DEPTH = 8
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _PlainLoader(yaml.SafeLoader):
    """YAML without anchors: a short text cannot become a huge tree."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401
        """Refuse aliases."""
        if self.check_event(yaml.AliasEvent):
            message = "aliases are not allowed"
            raise yaml.YAMLError(message)
        return super().compose_node(parent, index)


def read_yaml(path: Path) -> dict[str, Any]:
    """The file's keys and values.

    Raises:
        UsageError: it cannot be read, or is not plain YAML with keys at the top.
        LimitExceeded: it is longer than 64 KiB.
    """
    try:
        text = read_bounded(path, MAX_CONFIG_BYTES).decode("utf-8")
        values = _PlainLoader(text).get_single_data()
    except OSError as error:
        message = f"{path}: {error.strerror}"
        raise UsageError(message) from error
    except UsageError:  # a ValueError too
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        message = f"{path.name}: not valid YAML{line}"
        raise UsageError(message) from None
    if not isinstance(values, dict):
        message = f"{path.name}: expected keys and values, got {type(values).__name__}"
        raise UsageError(message)
    return values


def expanded(value: Any, environment: Mapping[str, str], depth: int = 0) -> Any:  # noqa: ANN401
    """The tree with ``${NAME}`` replaced in every string.

    Raises:
        UsageError: a variable is not set, or the tree is too deep.
    """
    if depth > _MAX_DEPTH:
        message = f"settings: nested deeper than {_MAX_DEPTH} levels"
        raise UsageError(message)
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _variable(match.group(1), environment), value)
    if isinstance(value, dict):
        return {str(key): expanded(inner, environment, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [expanded(inner, environment, depth + 1) for inner in value]
    return value


def _variable(name: str, environment: Mapping[str, str]) -> str:
    if name not in environment:
        message = f"settings: the environment variable {name} is not set"
        raise UsageError(message)
    return environment[name]


def anchor_paths(values: dict[str, Any], base: Path) -> None:
    """Make the file's own relative paths relative to it: every ``..._file``, and the others by name."""

    def anchored(text: Any) -> Any:  # noqa: ANN401
        return str(base / text) if isinstance(text, str) else text

    if "camera" in values:
        values["camera"] = anchored(values["camera"])
    if isinstance(values.get("recipients"), list):
        values["recipients"] = [anchored(entry) for entry in values["recipients"]]
    for section, key in _FOLDERS:
        inner = values.get(section)
        if isinstance(inner, dict) and key in inner:
            inner[key] = anchored(inner[key])
    _anchor_files(values, anchored)
    source = values.get("source")
    if isinstance(source, str) and (base / source).exists():
        values["source"] = str(base / source)


def _anchor_files(value: Any, anchored: Callable[[Any], Any]) -> None:  # noqa: ANN401
    if isinstance(value, list):
        for inner in value:
            _anchor_files(inner, anchored)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key.endswith("_file"):
                value[key] = anchored(inner)
            else:
                _anchor_files(inner, anchored)


def from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """What ``VEILCAM__...`` variables set, as a tree; ``recipients`` is split at commas.

    Raises:
        UsageError: a name uses a value as a section.
    """
    found: dict[str, Any] = {}
    for name in sorted(environment):
        if not name.startswith(ENV_PREFIX):
            continue
        keys = name[len(ENV_PREFIX) :].lower().split("__")
        inner = found
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                message = f"settings: {name}: {key} is a value, not a section"
                raise UsageError(message)
        text = environment[name]
        inner[keys[-1]] = text.split(",") if keys == ["recipients"] else text
    return found


def read_secret(path: Path | None) -> str | None:
    """The content of a secret's file without the line's end; None without a file.

    Raises:
        UsageError: it cannot be read, or is not text.
        LimitExceeded: it is longer than 4 KiB.
    """
    if path is None:
        return None
    try:
        return read_bounded(path, MAX_SECRET_BYTES).decode("utf-8").strip()
    except OSError as error:
        message = f"secret file {path}: {error.strerror}"
        raise UsageError(message) from error
    except UnicodeDecodeError as error:
        message = f"secret file {path}: expected text"
        raise UsageError(message) from error


def merge(values: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Put ``over`` into ``values``, section by section."""
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(values.get(key), dict):
            merge(values[key], value)
        else:
            values[key] = dict(value) if isinstance(value, Mapping) else value
