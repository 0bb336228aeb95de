"""Who may talk to a worker, and what strangers cannot do to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import grpc
import pytest
import tritonclient.grpc.aio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tritonclient.utils import InferenceServerException

from analytics.oip import InferRequest, Limits, Tensor, rest
from analytics.worker.http_server import Patience, WorkerHttp
from analytics.worker.options import TlsFiles, WorkerOptions
from analytics.worker.server import Worker
from base.access import AccessToken, ListenAddress
from base.errors import UsageError
from tests.analytics.clips import red_square
from tests.analytics.serving_worker import ANY_PORT, OPTIONS, jpeg, serving_worker

TOKEN = "correct-horse-battery"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
PATH = "/v2/models/detector/infer"


def tls_of(folder: Path, *, mutual: bool) -> TlsFiles:
    return TlsFiles(folder / "worker.pem", folder / "worker.key", folder / "root.pem" if mutual else None)


def trusting(folder: Path, client: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=folder / "root.pem")
    if client is not None:
        context.load_cert_chain(client, client.with_suffix(".key"))
    return context


async def status_of(session: aiohttp.ClientSession, path: str, **options: Any) -> int:
    async with session.get(path, **options) as answer:
        return answer.status


async def test_everything_but_the_probes_needs_the_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with (
        serving_worker(token=AccessToken(TOKEN)) as worker,
        aiohttp.ClientSession(worker.url) as session,
        tritonclient.grpc.aio.InferenceServerClient(worker.grpc_address) as client,
    ):
        assert await status_of(session, "/v2/health/live") == 200
        assert await status_of(session, "/v2/health/ready") == 200
        assert await client.is_server_ready()
        for path in ("/v2", "/metrics", "/v2/models/detector", "/v2/models/detector/ready"):
            assert await status_of(session, path) == 401
            assert await status_of(session, path, headers={"Authorization": f"Basic {TOKEN}"}) == 401
            assert await status_of(session, path, headers=BEARER) == 200
        with pytest.raises(InferenceServerException, match="token is missing or wrong"):
            await client.get_model_metadata("detector")
        found = await client.get_model_metadata("detector", headers={"authorization": f"Bearer {TOKEN}"})
        assert found.name == "detector"
    assert TOKEN not in caplog.text


async def test_guessing_tokens_is_slowed_down() -> None:
    async with (
        serving_worker(token=AccessToken(TOKEN)) as worker,
        aiohttp.ClientSession(worker.url) as session,
    ):
        guesses = [
            await status_of(session, "/v2", headers={"Authorization": f"Bearer guess-{n}"}) for n in range(12)
        ]
        assert guesses == [401] * 10 + [429] * 2


async def test_with_mutual_tls_only_known_clients_get_in(certificates: Path) -> None:
    async with serving_worker(tls=tls_of(certificates, mutual=True)) as worker:
        known = trusting(certificates, certificates / "client.pem")
        async with aiohttp.ClientSession(worker.url) as session:
            assert await status_of(session, "/v2/models/detector", ssl=known) == 200
        for stranger in (None, certificates / "stranger" / "client.pem"):
            async with aiohttp.ClientSession(worker.url) as session:
                with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                    await status_of(session, "/v2/health/live", ssl=trusting(certificates, stranger))


async def test_grpc_asks_for_the_same_certificates(certificates: Path) -> None:
    root = (certificates / "root.pem").read_bytes()
    pair = [(certificates / name).read_bytes() for name in ("client.key", "client.pem")]
    async with serving_worker(tls=tls_of(certificates, mutual=True)) as worker:
        for identity, gets_in in ((pair, True), ([None, None], False)):
            credentials = grpc.ssl_channel_credentials(root, *identity)
            client = tritonclient.grpc.aio.InferenceServerClient(
                worker.grpc_address, ssl=True, creds=credentials
            )
            async with client:
                if gets_in:
                    assert await client.is_server_ready()
                else:
                    with pytest.raises(InferenceServerException):
                        await client.is_server_ready(client_timeout=3)


async def test_https_without_client_certificates_still_needs_the_token(certificates: Path) -> None:
    tls, token = tls_of(certificates, mutual=False), AccessToken(TOKEN)
    async with serving_worker(tls=tls, token=token) as worker, aiohttp.ClientSession(worker.url) as session:
        assert worker.url.startswith("https://")
        context = trusting(certificates, None)
        assert await status_of(session, "/v2", ssl=context) == 401
        assert await status_of(session, "/v2", ssl=context, headers=BEARER) == 200


@pytest.mark.parametrize("where", ["listen", "grpc"])
def test_it_does_not_listen_to_strangers_without_being_told(where: str, certificates: Path) -> None:
    def options(**more: Any) -> WorkerOptions:
        place = {where: ListenAddress("0.0.0.0", 0)}  # noqa: S104  # that is the point
        return WorkerOptions(detectors=OPTIONS.detectors, **(place | more))

    for open_to_all in (options(), options(tls=tls_of(certificates, mutual=False))):
        with pytest.raises(UsageError, match="--token-file or --tls-client-ca"):
            open_to_all.check()
    options(token=AccessToken(TOKEN)).check()
    options(tls=tls_of(certificates, mutual=True)).check()
    options(insecure=True).check()


def test_a_key_that_does_not_belong_to_the_certificate_is_refused(certificates: Path) -> None:
    for files in (
        TlsFiles(certificates / "worker.pem", certificates / "client.key"),
        TlsFiles(certificates / "none.pem", certificates / "worker.key"),
        TlsFiles(certificates / "worker.pem", certificates / "worker.key", certificates / "ext"),
    ):
        with pytest.raises(UsageError, match="TLS"):
            files.context()


@asynccontextmanager
async def impatient() -> AsyncIterator[tuple[Worker, WorkerHttp]]:
    """A worker with a second REST server before the same engine that waits half a second for everything."""
    async with serving_worker(grpc=None) as worker:
        http = WorkerHttp(worker.api, ANY_PORT, patience=Patience(0.5, 0.5, 0.5))
        await http.start()
        try:
            yield worker, http
        finally:
            await http.close()


async def raw_exchange(url: str, data: bytes, *, drip: bool = False) -> tuple[bytes, float]:
    """What a server answers to bytes as they are, and after how long it closed the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    began_s = time.monotonic()
    writer.write(data)
    dripping = asyncio.create_task(_drip(writer)) if drip else None
    answer = b""
    with contextlib.suppress(ConnectionError):  # what drips in behind the answer may reset the connection
        while part := await asyncio.wait_for(reader.read(4096), 10):
            answer += part
    if dripping is not None:
        dripping.cancel()
    writer.close()
    return answer, time.monotonic() - began_s


async def _drip(writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        writer.write(b"x")
        await asyncio.sleep(0.1)


async def test_a_client_that_is_slow_on_purpose_is_cut_off() -> None:
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n".encode()
    async with impatient() as (_, http):
        _, spent_s = await raw_exchange(http.url, head + b"X-Half: ", drip=True)
        assert spent_s < 4
        answer, spent_s = await raw_exchange(http.url, head + b"Content-Length: 9000\r\n\r\nx", drip=True)
        assert answer.startswith(b"HTTP/1.1 408")
        assert spent_s < 4


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": "99999999999"}, 413),
        ({"Content-Length": "40000000"}, 413),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Content-Length": "4", "Content-Encoding": "gzip"}, 415),
        ({"X-Long": "x" * 20_000}, 400),
    ],
)
async def test_requests_beyond_the_limits_are_refused_unread(
    headers: dict[str, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    async with serving_worker(grpc=None) as worker:
        answer, spent_s = await raw_exchange(
            worker.url, f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode()
        )
    assert answer.startswith((f"HTTP/1.1 {status} ".encode(), f"HTTP/1.0 {status} ".encode()))
    assert spent_s < 8
    assert caplog.text == ""


async def test_a_message_above_the_limit_is_refused_by_grpc() -> None:
    limits = Limits(body_bytes=100_000)
    async with (
        serving_worker(limits=limits) as worker,
        grpc.aio.insecure_channel(worker.grpc_address) as channel,
    ):
        method = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(b"\x00" * 200_000, timeout=5)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(b"\xff\xff\xff", timeout=5)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_grpc_turns_strangers_away_before_their_message_is_read() -> None:
    async with (
        serving_worker(token=AccessToken(TOKEN)) as worker,
        grpc.aio.insecure_channel(worker.grpc_address) as channel,
    ):
        method = channel.stream_unary("/inference.GRPCInferenceService/ModelInfer")
        call = method(timeout=10)  # nothing is sent: no message, and no end of it
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.parametrize("count", [0, 2])
async def test_grpc_takes_one_message_for_a_call(count: int) -> None:
    async with serving_worker() as worker, grpc.aio.insecure_channel(worker.grpc_address) as channel:
        method = channel.stream_unary("/inference.GRPCInferenceService/ServerLive")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(iter([b""] * count), timeout=10)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


SHAPES = st.lists(st.integers(-1, 4), max_size=3)
TENSORS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["IMAGE", "images", "x", ""]),
        "datatype": st.sampled_from(["BYTES", "FP32", "UINT8", "?"]),
        "shape": SHAPES | st.just([1]) | st.just([1, 3, 64, 64]),
        "data": st.lists(st.text(max_size=4) | st.integers() | st.none(), max_size=3),
        "parameters": st.dictionaries(st.just("binary_data_size"), st.integers(-1, 40), max_size=1),
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=4) | st.integers(),
        "inputs": st.lists(TENSORS, max_size=3),
        "outputs": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["BOXES", "x"])}), max_size=2),
        "parameters": st.dictionaries(
            st.sampled_from(["timeout", "camera", "min_score", "names"]),
            st.integers(-5, 10**12) | st.text(max_size=3) | st.floats(0, 1) | st.booleans(),
            max_size=3,
        ),
    },
)
BODIES = DOCUMENTS.map(lambda document: json.dumps(document).encode()) | st.binary(max_size=60)
PATHS = st.sampled_from(
    [PATH, "/v2/models/raw/infer", "/v2/models/%00/infer", "/v2/models/a/versions/b/infer"]
)


async def test_whatever_strangers_send_is_never_the_workers_fault() -> None:
    async with serving_worker(grpc=None) as worker:
        loop = asyncio.get_running_loop()

        @settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(PATHS, BODIES, st.binary(max_size=40), st.none() | st.integers(-1, 100))
        def check(path: str, body: bytes, rest_of_it: bytes, json_length: int | None) -> None:
            length = len(body) if json_length == 0 else json_length
            headers = {} if length is None else {rest.HEADER_LENGTH: str(length)}
            asked = worker.api.reply("POST", path, headers, body + rest_of_it, "stranger")
            reply = asyncio.run_coroutine_threadsafe(asked, loop).result(20)
            assert reply.status in {200, 400, 404, 413, 503}
            if reply.status == 503:  # a timeout that nobody can meet
                assert json.loads(reply.body)["code"] == "late"
            json.loads(reply.body[: int(reply.headers.get(rest.HEADER_LENGTH, len(reply.body)))])

        await asyncio.to_thread(check)
        request = InferRequest("detector", (Tensor.of_strings("IMAGE", [jpeg(red_square(0, 0))]),))
        body, json_length = rest.infer_request_body(request)
        reply = await worker.api.reply("POST", PATH, {rest.HEADER_LENGTH: str(json_length)}, body)
        assert reply.status == 200


async def test_lines_that_are_no_http_get_an_answer_or_nothing() -> None:
    async with impatient() as (_, http):
        for data in (
            b"\x16\x03\x01\x02\x00",
            b"GET\r\n\r\n",
            b"POST / HTTP/9.9\r\n\r\n",
            b"\x00" * 100,
            b"PRI * HTTP/2.0\r\n\r\n",
        ):
            answer, _ = await raw_exchange(http.url, data)
            assert answer == b"" or answer.startswith(
                (b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 405")
            ), answer[:60]


async def test_one_machine_cannot_hold_all_connections() -> None:
    async with serving_worker(grpc=None) as worker:
        port = urlsplit(worker.url).port
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(80)]
        try:
            await asyncio.sleep(0.5)
            refused = [await _is_refused(reader) for reader, _ in idle]
            assert sum(refused) == 80 - 64
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
            writer.write(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
            writer.close()
        finally:
            for _, writer in idle:
                writer.close()


async def _is_refused(reader: asyncio.StreamReader) -> bool:
    """It was answered, unasked."""
    try:
        return (await asyncio.wait_for(reader.read(12), 0.005)) == b"HTTP/1.1 503"
    except TimeoutError:
        return False


async def test_idle_grpc_connections_are_bounded() -> None:
    async with serving_worker() as worker:
        assert worker.grpc_address is not None
        port = int(worker.grpc_address.rpartition(":")[2])
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
        idle = []
        try:
            for _ in range(150):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(preface)
                idle.append((reader, writer))
            await asyncio.sleep(1.0)
            assert sum(reader.at_eof() for reader, _ in idle) == 150 - 128
        finally:
            for _, writer in idle:
                writer.close()
