from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from base.errors import UsageError
from camera.sources import open_source
from camera.sources.uri import SourceKind, parse_size, parse_uri


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("clip.mp4", SourceKind.FILE),
        ("file:clip.mp4", SourceKind.FILE),
        ("/dev/video0", SourceKind.V4L2),
        ("v4l2:/dev/video2?size=640x480", SourceKind.V4L2),
        ("rtsp://host/stream", SourceKind.URL),
        ("https://host/live.m3u8", SourceKind.URL),
        ("synthetic:", SourceKind.SYNTHETIC),
        ("synthetic", SourceKind.SYNTHETIC),
        ("images:/tmp?fps=5", SourceKind.IMAGES),
    ],
)
def test_what_a_source_string_means(text: str, kind: SourceKind) -> None:
    assert parse_uri(text).kind is kind


def test_a_folder_is_a_folder_of_images(tmp_path: Path) -> None:
    assert parse_uri(str(tmp_path)).kind is SourceKind.IMAGES


def test_the_name_that_is_shown_has_no_password_and_no_query() -> None:
    source = parse_uri("rtsp://user:hunter2@host:554/live?token=abc")
    assert source.name == "rtsp://host:554/live"
    assert source.target == "rtsp://user:hunter2@host:554/live?token=abc"


@pytest.mark.parametrize(
    "text", ["", "gopher://x/y", "synthetic:?size=4", "synthetic:?colour=red", "v4l2:?fps=0"]
)
def test_mistakes_are_refused_before_anything_is_opened(text: str) -> None:
    with pytest.raises(UsageError, match="source"):
        open_source(text)


def test_a_file_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(UsageError, match="no such file"):
        open_source("/nowhere/clip.mp4")


@given(st.text(max_size=60))
def test_any_text_gives_a_source_or_a_usage_error(text: str) -> None:
    try:
        parse_uri(text.replace("\0", ""))
    except UsageError:
        return


def test_sizes_are_bounded() -> None:
    assert parse_size("1280x720") == (1280, 720)
    for text in ("0x0", "99999x10", "1280", "-1x5", "16x16x16"):
        with pytest.raises(UsageError, match="WIDTHxHEIGHT"):
            parse_size(text)
