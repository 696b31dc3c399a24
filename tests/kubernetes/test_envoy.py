"""A real Envoy over real servers: what a client of a gateway sees, also while its configuration changes."""

import asyncio
import json
import socket
from collections import Counter
from pathlib import Path

import pytest

from modelplane.gateway.envoy.envoy_names import CLUSTERS
from modelplane.gateway.envoy.envoy_routes import name_routes_file
from modelplane.gateway.route_table import Backend, Route
from modelplane.host.file_system import write_private
from modelplane.proxy import admin, module
from support.certificates import server_context
from support.envoys import EVENTS, Gateway, engines, free_ports, raw_get, running_envoy, service
from support.patience import PATIENCE_S

pytestmark = pytest.mark.kubernetes


async def test_a_prepared_gateway_is_open_and_answers_404_in_the_form_of_the_openai_api(
    gateway: Gateway,
) -> None:
    async with gateway.client.get(gateway.url("/ml/unknown/v1/models")) as response:
        assert (response.status, response.content_type) == (404, "application/json")
        assert (await response.json())["error"] | {"message": ""} == {
            "message": "",
            "type": "invalid_request_error",
            "param": None,
            "code": "route_not_found",
        }


async def test_a_service_without_backends_answers_503_and_says_what_to_look_at(gateway: Gateway) -> None:
    await gateway.apply(service(unavailable='cannot serve ModelService "ml/qwen": see "kubectl"'))
    async with gateway.client.post(gateway.url("/ml/qwen/v1/completions"), json={}) as response:
        assert (response.status, response.content_type) == (503, "application/json")
        assert response.headers["retry-after"] == "5"
        assert (await response.json())["error"] == {
            "message": 'cannot serve ModelService "ml/qwen": see "kubectl"',
            "type": "server_error",
            "param": None,
            "code": "no_ready_endpoint",
        }


async def test_a_backend_that_cannot_be_reached_is_an_error_in_the_same_form(gateway: Gateway) -> None:
    gone = Backend("ml/gone", (("127.0.0.1", next(free_ports())),), prefix="/")
    await gateway.apply(service(gone))
    async with gateway.client.get(gateway.url("/ml/qwen/v1/models")) as response:
        assert (response.status, response.content_type) == (503, "application/json")
        error = (await response.json())["error"]
        assert (error["type"], error["param"]) == ("server_error", None)
        assert "upstream connect error" in error["message"]


LONG = "x" * 9000


@pytest.mark.parametrize(
    ("prefix", "overlap", "asked", "seen"),
    [
        pytest.param(
            "/ml/r-1/", "", "/v1/chat?a=1&b=%20", "/ml/r-1/v1/chat?a=1&b=%20", id="a query stays as it is"
        ),
        pytest.param(
            "/", "", "/v1/models/a%20b", "/v1/models/a%20b", id="an escaped character stays escaped"
        ),
        pytest.param("/", "", "", "/", id="the service itself is the root"),
        pytest.param("/", "", "?a=1", "/?a=1", id="the service itself with a query is the root"),
        pytest.param("/", "", "//v1", "//v1", id="a double slash is the client's"),
        pytest.param("", "", "/v1/models", "/ml/qwen/v1/models", id="no prefix leaves the path alone"),
        pytest.param("/v1/", "v1", "/v1/models", "/v1/models", id="a version is not repeated"),
        pytest.param("/v1/", "v1", "/v1?a=1", "/v1/?a=1", id="a version alone is not repeated"),
        pytest.param("/v1/", "v1", "/models", "/v1/models", id="a version is added where it is missing"),
        pytest.param(
            "/v1/", "v1", "/v1beta/models", "/v1/v1beta/models", id="another version is another segment"
        ),
        pytest.param("/p/", "", f"/{LONG}?{LONG}", f"/p/{LONG}?{LONG}", id="a long path is not cut"),
    ],
)
async def test_the_path_that_a_backend_sees(
    gateway: Gateway, prefix: str, overlap: str, asked: str, seen: str
) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend(prefix=prefix, overlap=overlap)))
        url = gateway.url(f"/ml/qwen{asked}")
        # aiohttp would resolve the dots itself.
        raw = await raw_get(gateway.port, url.removeprefix(gateway.url("")))
        assert json.loads(raw)["path"] == seen


async def test_headers_that_only_the_gateway_may_set_do_not_get_through(gateway: Gateway) -> None:
    mine = {
        "x-modelplane-host": "evil",
        "x-modelplane-prefix": "/evil/",
        "x-envoy-retry-on": "5xx",
        "x-envoy-upstream-rq-timeout-ms": "1",
        "x-request-id": "mine",
        "authorization": "Bearer mine",
    }
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        async with gateway.client.get(gateway.url("/ml/qwen/x"), headers=mine) as response:
            said = await response.json()
            assert (response.headers["x-request-id"], response.headers["server"]) == ("mine", "modelplane")
            assert not [key for key in response.headers if key.lower().startswith("x-envoy")]
    assert (said["path"], said["host"]) == ("/x", f"127.0.0.1:{gateway.port}")
    assert {key: said["headers"].get(key) for key in mine} == {
        **dict.fromkeys(mine),
        "x-request-id": "mine",
        "authorization": "Bearer mine",
    }


async def test_requests_are_shared_out_by_weight(gateway: Gateway) -> None:
    async with engines("a", "b") as (a, b):
        await gateway.apply(service(a.backend(3), b.backend(1)))
        answers = await asyncio.gather(*(gateway.get("/ml/qwen/x") for _ in range(200)))
    counts = Counter(answer["by"] for answer in answers)
    # Five standard deviations of 200 draws.
    assert 120 <= counts["a"] <= 180, counts


async def test_another_backend_answers_for_one_that_is_gone_with_its_own_path_and_host(
    gateway: Gateway,
) -> None:
    gone = Backend("ml/gone", (("127.0.0.1", next(free_ports())),), 1000, "/gone/", host="gone.example")
    async with engines("a") as (engine,):
        await gateway.apply(service(gone, engine.backend(1, "/there/", host="there.example")))
        for _ in range(10):
            url = gateway.url("/ml/qwen/v1/chat?a=1")
            async with gateway.client.post(url, data=b"prompt") as response:
                said = await response.json()
            assert (said["path"], said["host"], said["body"]) == (
                "/there/v1/chat?a=1",
                "there.example",
                "prompt",
            )


async def test_another_instance_answers_for_one_that_is_gone(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        hosts = (("127.0.0.1", engine.port), ("127.0.0.1", next(free_ports())))
        await gateway.apply(service(Backend("ml/both", hosts, prefix="/")))
        answers = [await gateway.get("/ml/qwen/x") for _ in range(20)]
    assert Counter(answer["by"] for answer in answers) == {"a": 20}


async def test_of_many_requests_whose_first_instance_is_gone_none_fails(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        hosts = (("127.0.0.1", engine.port), ("127.0.0.1", next(free_ports())))
        # Each service finds out for itself that an instance is gone, and then leaves it out for a while.
        paths = [f"/ml/{number}/" for number in range(100)]
        services = (Route(f"ml{path}", path, (Backend(f"ml{path}", hosts, prefix="/"),)) for path in paths)
        await gateway.apply(*services)
        statuses = Counter([await gateway.status(path) for path in paths for _ in range(6)])
    assert statuses == {200: 600}


async def test_an_overloaded_engine_is_believed_where_there_is_no_other(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        async with gateway.client.get(gateway.url("/ml/qwen/x?overloaded")) as response:
            assert (response.status, await response.json()) == (503, {"by": "a"})


async def test_a_request_passes_both_gateways_and_avoids_a_replica_without_pods(gateway: Gateway) -> None:
    hosts = (("127.0.0.1", gateway.workload_port),)
    replicas = [
        Backend(f"ml/{name}", hosts, weight, f"/ml/{name}/") for name, weight in (("r-1", 1), ("r-2", 99))
    ]
    async with engines("pod") as (pod,):
        behind = (
            Route("ml/r-1", "/ml/r-1/", (pod.backend(),)),
            Route("ml/r-2", "/ml/r-2/", unavailable="no pod"),
        )
        await gateway.apply(service(*replicas), workload=behind)
        for number in range(10):
            said = await gateway.get("/ml/qwen/v1/models", headers={"x-request-id": f"id-{number}"})
            assert (said["by"], said["path"]) == ("pod", "/v1/models")
            assert said["headers"]["x-request-id"] == f"id-{number}"


async def test_a_stream_survives_every_change_of_the_configuration(gateway: Gateway) -> None:
    async with engines("a", "b") as (a, b):
        await gateway.apply(service(a.backend()), service(b.backend(), name="other"))
        seen = []
        changes = {
            3: (service(a.backend(5), b.backend(1)), service(b.backend(), name="other")),
            6: (service(a.backend(1)),),
            9: (service(b.backend()),),
            12: (),
        }
        async for event in gateway.events("/ml/qwen/x?stream"):
            seen.append(event)
            if len(seen) in changes:
                await gateway.apply(*changes[len(seen)], workload=(service(),))
    assert seen == [f"data: {number}" for number in range(EVENTS)]


async def test_a_change_of_the_listeners_does_not_end_a_stream(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        seen = []
        async for event in gateway.events("/ml/qwen/x?stream"):
            seen.append(event)
            if len(seen) == 3:
                change_listeners(gateway)
    assert seen == [f"data: {number}" for number in range(EVENTS)]


def change_listeners(gateway: Gateway) -> None:
    listeners = gateway.directory / module.find_listeners_file(gateway.directory)
    write_private(listeners, listeners.read_text().replace('"30s"', '"31s"'))


DRAINING = (
    "listener_manager.total_filter_chains_draining",
    "listener_manager.total_listeners_draining",
)


async def test_a_connection_from_before_a_change_of_its_listener_ends_with_its_next_answer(
    gateway: Gateway,
) -> None:
    request = b"GET /ml/qwen/x HTTP/1.1\r\nhost: g\r\n\r\n"
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        held = [await asyncio.open_connection("127.0.0.1", gateway.port) for _ in range(2)]
        change_listeners(gateway)
        async with asyncio.timeout(PATIENCE_S):
            # The change is counted a moment before the connections are told to end.
            while not sum(map(gateway.stat, DRAINING)):
                await asyncio.sleep(0.02)
            for reader, writer in held:
                writer.write(request)
                answer = await reader.read()  # to the end of the connection
                assert answer.startswith(b"HTTP/1.1 200")
                assert b"connection: close" in answer
                writer.close()


async def test_no_request_fails_while_replicas_are_exchanged(gateway: Gateway) -> None:
    async with engines("a", "b") as pair:
        statuses: Counter[int] = Counter()
        done = asyncio.Event()

        async def ask() -> None:
            while not done.is_set():
                statuses[await gateway.status("/ml/qwen/x")] += 1

        await gateway.apply(service(pair[0].backend()))
        asking = [asyncio.create_task(ask()) for _ in range(4)]
        for number in range(1, 9):
            await gateway.apply(service(pair[number % 2].backend()))
        done.set()
        await asyncio.gather(*asking)
    assert set(statuses) == {200}


@pytest.mark.parametrize(
    ("rest", "status"), [(0, 504), (1, 408)], ids=["of an engine", "of a client in a body"]
)
async def test_silence_ends_with_the_time_limit_of_a_request(tmp_path: Path, rest: int, status: int) -> None:
    def shorten(files: dict[str, str]) -> dict[str, str]:
        return {path: text.replace('"14400s"', '"1s"') for path, text in files.items()}

    with socket.create_server(("127.0.0.1", 0)) as silent:
        backend = Backend("ml/silent", (silent.getsockname(),), prefix="/")
        async with running_envoy(tmp_path, transform=shorten) as gateway:
            await gateway.apply(service(backend))
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(b"POST /ml/qwen/v1/x HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n")
            writer.write(b"content-length: %d\r\n\r\n{" % (1 + rest))
            async with asyncio.timeout(PATIENCE_S):
                said = await reader.read()
            writer.close()
    assert said.startswith(b"HTTP/1.1 %d " % status), said
    assert b'"message":"downstream duration timeout"' in said, said


async def test_an_engine_learns_that_its_client_has_left(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        events = gateway.events("/ml/qwen/x?stream&endless")
        await anext(events)
        await events.aclose()  # type: ignore[attr-defined]  # an async generator, declared by what it yields
        await asyncio.wait_for(engine.cut_off.wait(), PATIENCE_S)


async def test_a_websocket_is_passed_on(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend(prefix="/there/")))
        async with gateway.client.ws_connect(gateway.url("/ml/qwen/v1/realtime?websocket")) as connection:
            await connection.send_str("hello")
            assert await connection.receive_str(timeout=PATIENCE_S) == "/there/v1/realtime hello"


async def test_http_2_without_tls_is_understood(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    # RFC 9113, section 3.4: the preface and an empty SETTINGS frame.
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
    frame = await asyncio.wait_for(reader.readexactly(9), PATIENCE_S)
    writer.close()
    assert frame[3] == 4


@pytest.mark.parametrize(
    ("certified", "status"),
    [
        pytest.param("localhost", 200, id="a certificate for its host is accepted"),
        pytest.param("other.example", 503, id="a certificate for another host is refused"),
    ],
)
async def test_an_outside_provider_is_reached_over_tls(gateway: Gateway, certified: str, status: int) -> None:
    async with engines("provider", tls=server_context(gateway.directory, certified)) as (engine,):
        host = f"localhost:{engine.port}"
        backend = Backend(
            "ml/provider", (("localhost", engine.port),), prefix="/v1/", overlap="v1", tls=True, host=host
        )
        await gateway.apply(service(backend))
        async with asyncio.timeout(PATIENCE_S):
            # The name is resolved after the route is there.
            while True:
                async with gateway.client.get(gateway.url("/ml/qwen/v1/models")) as response:
                    said = await response.json()
                if "no healthy upstream" not in str(said):
                    break
        assert response.status == status, said
        if status == 200:
            assert (said["path"], said["host"]) == ("/v1/models", host)
        else:
            assert gateway.stat("cluster.front-door/ml/provider.ssl.fail_verify_san") > 0


async def test_a_refused_file_changes_nothing_and_is_reported(gateway: Gateway) -> None:
    async with engines("a") as (engine,):
        await gateway.apply(service(engine.backend()))
        assert admin.find_reload_problem(gateway.directory) is None
        for name in (CLUSTERS, name_routes_file("front-door")):
            write_private(gateway.directory / name, '{"resources":[{"@type":"nothing"}]}')
        rejected = f"Envoy rejected {CLUSTERS}, {name_routes_file('front-door')}"
        wanted = f"{rejected} and keeps the previous configuration: "
        async with asyncio.timeout(PATIENCE_S):
            while not (problem := admin.find_reload_problem(gateway.directory) or "").startswith(wanted):
                await asyncio.sleep(0.05)
        assert (await gateway.get("/ml/qwen/x"))["by"] == "a"
        await gateway.apply(service(engine.backend()))
        assert (problem != "", admin.find_reload_problem(gateway.directory)) == (True, None)
