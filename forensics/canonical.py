"""Canonical JSON, which lives in `base.canonical` because grants are written in it too."""

from __future__ import annotations

from base.canonical import MAX_INTEGER, JsonObject, JsonValue, canonical_json, parse_canonical

__all__ = ["MAX_INTEGER", "JsonObject", "JsonValue", "canonical_json", "parse_canonical"]
