from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import av
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from camera.access import ListenAddress
from camera.http import HttpOptions, HttpServer
from camera.recordings import NoRecordingError, RecordingFolder
from camera.recordings_api import PATH, RecordingsApi
from camera.state import CameraView
from camera.webrtc.viewers import Viewers
from codec.container import Fmp4Writer
from tests.codec.media import FRAME_US, HEIGHT, WIDTH, protected_units
from tests.support.stand_in import StandInCamera

DAY, NAME = "2026-11-30", "gate_20261130T120000.250Z.mp4"
START_S = datetime(2026, 11, 30, 12, 0, 0, 250_000, UTC).timestamp()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A camera's folder: one finished recording of three segments, a growing one, and things of others."""
    day = tmp_path / "gate" / DAY
    day.mkdir(parents=True)
    with Fmp4Writer(day / NAME, WIDTH, HEIGHT) as writer:
        for unit in protected_units(24, 8):
            writer.write(unit)
    growing = Fmp4Writer(day / "gate_20261130T120500.000Z.mp4", WIDTH, HEIGHT, growing=True)
    for unit in protected_units(24, 8)[:17]:
        growing.write(unit)
    growing.abort()
    (day / "notes.txt").write_text("x")
    (day / "gate_20261130T130000.000Z.mp4").write_bytes(b"not a video")
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (tmp_path / "gate" / ".lock").touch()
    return tmp_path / "gate"


@pytest.fixture(scope="module")
def camera() -> Iterator[StandInCamera]:
    with StandInCamera(width=320, height=180) as running:
        yield running


@asynccontextmanager
async def serving(
    camera: StandInCamera, folder: Path | None
) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    viewers = Viewers(camera)
    api = RecordingsApi(None if folder is None else RecordingFolder(folder))
    server = HttpServer(
        CameraView("gate", camera, viewers), HttpOptions(ListenAddress("127.0.0.1", 0)), (api,)
    )
    await server.start()
    try:
        async with aiohttp.ClientSession() as http:
            yield server.url, http
    finally:
        await server.close()
        await viewers.close()


def test_a_day_lists_what_is_finished_and_what_grows(folder: Path) -> None:
    recordings = RecordingFolder(folder)
    assert recordings.days() == [DAY]
    first, second = recordings.list_day(DAY)
    assert (first.name, first.start_s, first.is_open) == (NAME, START_S, False)
    assert first.duration_s == pytest.approx(24 * FRAME_US / 1e6)
    assert first.num_bytes == (folder / DAY / NAME).stat().st_size
    assert second.is_open
    assert second.duration_s == pytest.approx(16 * FRAME_US / 1e6)


@pytest.mark.parametrize(
    ("day", "name"),
    [
        ("..", "secret.mp4"),
        (DAY, "../../secret.mp4"),
        (DAY, "notes.txt"),
        (DAY, NAME + "x"),
        (DAY, "gate_20261130T130000.000Z.mp4"),
        (DAY, "gate_20261130T140000.000Z.mp4"),
        ("2026-11-30\n", NAME),
    ],
)
def test_nothing_else_can_be_read(folder: Path, day: str, name: str) -> None:
    with pytest.raises(NoRecordingError):
        RecordingFolder(folder).index(day, name)


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    (folder / DAY / "gate_20261130T150000.000Z.mp4").symlink_to("/dev/zero")
    with pytest.raises(NoRecordingError):
        RecordingFolder(folder).index(DAY, "gate_20261130T150000.000Z.mp4")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=30), st.text(max_size=40))
def test_any_name_is_refused_or_inside_the_folder(folder: Path, day: str, name: str) -> None:
    try:
        path = RecordingFolder(folder).path(day, name)
    except NoRecordingError:
        return
    assert path.parent.parent == folder


async def test_a_player_gets_head_and_segments_that_decode(camera: StandInCamera, folder: Path) -> None:
    async with serving(camera, folder) as (url, http):
        async with http.get(url + PATH) as answer:
            listed = await answer.json()
        assert (listed["days"], listed["day"], len(listed["recordings"])) == ([DAY], DAY, 2)
        base = f"{url}{PATH}/{DAY}/{NAME}"
        async with http.get(base + "/index") as answer:
            index = await answer.json()
        assert index["segments"] == [[n * 8 * FRAME_US, 8 * FRAME_US] for n in range(3)]
        assert index["codec"].startswith("avc1.42")
        data = b""
        for part in ("head", "0", "2"):
            async with http.get(f"{base}/{part}") as answer:
                assert answer.content_type == "video/mp4"
                data += await answer.read()
        with av.open(io.BytesIO(data), "r") as container:
            assert sum(1 for _ in container.decode(video=0)) == 16
        async with http.get(f"{base}/3") as answer:
            assert answer.status == 404
            assert (await answer.json())["hint"]


async def test_the_whole_file_is_a_download_with_ranges(camera: StandInCamera, folder: Path) -> None:
    whole = (folder / DAY / NAME).read_bytes()
    async with serving(camera, folder) as (url, http):
        async with http.get(f"{url}{PATH}/{DAY}/{NAME}", headers={"Range": "bytes=100-199"}) as answer:
            assert (answer.status, await answer.read()) == (206, whole[100:200])
            assert NAME in answer.headers["Content-Disposition"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        async with http.get(f"{url}{PATH}/{DAY}/gate_20261130T120500.000Z.mp4.part") as answer:
            assert answer.status == 404  # it still grows
        for bad in (
            f"{PATH}/..%2f..%2fsecret.mp4/x",
            f"{PATH}/{DAY}/..%2f..%2fsecret.mp4",
            f"{PATH}?day=../x",
        ):
            async with http.get(url + bad) as answer:
                assert answer.status in (400, 404)
                assert b"secret\n" not in await answer.read()


async def test_a_camera_that_does_not_record_says_so(camera: StandInCamera) -> None:
    async with serving(camera, None) as (url, http):
        async with http.get(url + PATH) as answer:
            assert (await answer.json())["recording"] is False
        async with http.get(f"{url}{PATH}/{DAY}/{NAME}/index") as answer:
            assert answer.status == 404
