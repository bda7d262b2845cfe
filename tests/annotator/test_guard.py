"""Who is let in: every refusal is answered, logged in one line, and the server lives on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from annotator.made import CLIENT, Served, paint, served, write_dataset
from twoslice.annotator.guard import MOST_BYTES, Doors, own_names


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("guard")
    (folder / "secret.txt").write_text("not yours")
    with served(write_dataset(folder / "data")) as running:
        yield running


@pytest.fixture(autouse=True)
def _lives(server: Served) -> Iterator[None]:
    """Whatever was sent, the server answers afterwards, and no traceback was printed."""
    yield
    with server.client() as client:
        assert client.get("/api/dataset").status_code == 200
    assert "Traceback" not in server.log.read_text()


def lines(server: Served) -> list[str]:
    return [line for line in server.log.read_text().splitlines() if "refused" in line]


def bare(server: Served, **headers: str) -> httpx.Client:
    return httpx.Client(
        base_url=server.base, headers=headers, timeout=30, trust_env=False, verify=False
    )


def refused(server: Served, answer: httpx.Response, status: int, word: str, before: int) -> None:
    assert answer.status_code == status
    new = lines(server)[before:]
    assert len(new) == 1
    assert word in new[0]


ADDRESSES = [
    "/",
    "/page/app.js",
    "/api/dataset",
    "/api/cases/case_0/drawing",
    "/api/cases/case_0/slices/0/axial/3",
    "/nowhere",
]


@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_is_to_be_had_without_the_token(server: Served, path: str) -> None:
    before = len(lines(server))
    with bare(server) as client:
        answer = client.get(path)
    refused(server, answer, 401, "no token", before)
    assert "case_" not in answer.text


@pytest.mark.parametrize("path", ADDRESSES)
def test_a_wrong_token_opens_nothing(server: Served, path: str) -> None:
    with bare(server) as client:
        for wrong in ("x" * len(server.token), server.token[:-1], server.token + "x", "é"):
            before = len(lines(server))
            answer = client.get(path, headers={"Authorization": f"Bearer {wrong}".encode()})
            refused(server, answer, 401, "token", before)
    with bare(server, Cookie=f"twoslice-{server.port}=wrong") as client:
        assert client.get(path).status_code == 401
    with bare(server) as client:
        assert client.get(f"/?token=wrong&next={path}").status_code == 401
        # The token in an address opens the page's entry alone.
        if path != "/":
            assert client.get(f"{path}?token={server.token}").status_code == 401


def test_the_printed_link_opens_the_page_and_leaves_the_address(server: Served) -> None:
    with bare(server) as client:
        answer = client.get(server.link)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        page = client.get("/")
        assert page.status_code == 200
        assert server.token not in page.text
        assert client.get("/api/dataset").json()["name"] == "made"


@pytest.mark.parametrize("other", ['{"a": 1, "b": 2}', 'a\\"b', "caf\xe9", '"2|1:0"'])
def test_cookies_of_other_programs_on_this_machine_do_not_lock_the_page_out(
    server: Served, other: str
) -> None:
    with bare(server) as client:
        own = client.get(server.link).headers["set-cookie"].partition(";")[0]
    with bare(server) as client:
        for cookie in (f"theirs={other}; bare; {own}", f"{own}; theirs={other}"):
            sent = {"Cookie": cookie.encode("latin-1")}
            assert client.get("/api/dataset", headers=sent).status_code == 200  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil:{port}",
        "",
    ],
)
def test_a_foreign_host_is_refused_even_with_the_token(server: Served, host: str) -> None:
    before = len(lines(server))
    with server.client() as client:
        answer = client.get("/api/dataset", headers={"Host": host.format(port=server.port)})
    refused(server, answer, 421, "Host", before)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_a_foreign_origin_is_refused_even_with_the_token(server: Served, origin: str) -> None:
    before = len(lines(server))
    headers = {"Origin": origin.format(port=server.port)}
    with server.client() as client:
        answer = client.post("/api/cases/case_0/hold", json={"client": CLIENT}, headers=headers)
    refused(server, answer, 403, "Origin", before)


def test_a_change_by_cookie_needs_an_origin(server: Served) -> None:
    with bare(server, Cookie=f"twoslice-{server.port}={server.token}") as client:
        body = {"client": CLIENT}
        assert client.post("/api/cases/case_0/hold", json=body).status_code == 403
        own = {"Origin": server.base}
        assert client.post("/api/cases/case_0/hold", json=body, headers=own).status_code == 200
        other = {"Sec-Fetch-Site": "cross-site"}
        assert client.get("/api/dataset", headers=other).status_code == 403


def raw(server: Served, request: str, body: bytes = b"") -> bytes:
    """Send bytes as they are: clients tidy up what they send, attackers do not."""
    text = request.replace("\n", "\r\n").format(port=server.port, token=server.token)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as wire:
        wire.sendall(text.encode("latin-1") + body)
        answer = b""
        while chunk := wire.recv(65536):
            answer += chunk
    return answer


WAYS_OUT = [
    "/page/../../../secret.txt",
    "/page/..%2f..%2f..%2fsecret.txt",
    "/page/%2e%2e/%2e%2e/secret.txt",
    "/page/%252e%252e%252fsecret.txt",
    "/page/....//....//secret.txt",
    "/page/..\\..\\secret.txt",
    "//secret.txt",
    "/page/secret.txt%00.js",
    "/api/cases/..%2f..%2fsecret/drawing",
    "/api/cases/../../secret/drawing",
    "/api/cases/%2e%2e/slices/0/axial/0",
    "/api/cases/case_0%00/drawing",
    "/api/cases/case_0/slices/0/axial/-1",
    "/api/cases/case_0/slices/9/axial/0",
    "/api/cases/case_0/slices/0/axial/99999999999999999999",
    "/api/cases/case_0/slices/0/oblique/1",
    "/api/cases/case_0/preview/../axial/1",
]


@pytest.mark.parametrize("path", WAYS_OUT)
def test_no_path_leads_outside(server: Served, path: str) -> None:
    before = len(lines(server))
    head = f"GET {path} HTTP/1.1\nHost: 127.0.0.1:{{port}}\nAuthorization: Bearer {{token}}\n"
    answer = raw(server, head + "Connection: close\n\n")
    assert answer.split(b" ", 2)[1] in (b"404", b"400", b"405")
    assert b"not yours" not in answer
    assert len(lines(server)[before:]) <= 1  # malformed requests are told by the HTTP layer


MALFORMED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"client": "x"}',
    b'{"client": "test-client", "base": "", "edits": []}',
    b'{"client": "test-client", "base": "", "edits": [{"kind": "format disk"}]}',
    json.dumps({"client": CLIENT, "base": 5, "edits": [paint("axial", 1, [])]}).encode(),
    json.dumps({"client": CLIENT, "base": "", "edits": [paint("axial", -1, [])]}).encode(),
    json.dumps({"client": CLIENT, "base": "", "edits": [paint("axial", 1, ["x"])]}).encode(),  # type: ignore[list-item]
    b'{"client": "test-client", "base": "", "edits": [{"kind": "paint", "plane": "axial", '
    b'"index": 1, "runs": [1e400, 1, 1]}]}',
    b'{"client": "test-client", "base": "", "edits": [], "more": 1}',
]


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_bodies_are_refused_in_a_line(server: Served, body: bytes) -> None:
    before = len(lines(server))
    with server.client() as client:
        answer = client.post("/api/cases/case_0/edits", content=body)
    refused(server, answer, 400, "refused", before)
    assert "\n" not in answer.json()["message"]
    assert not (server.root / "labelsTr").exists()


def test_huge_bodies_are_refused_before_they_are_read(server: Served) -> None:
    before = len(lines(server))
    head = (
        "POST /api/cases/case_0/edits HTTP/1.1\nHost: 127.0.0.1:{port}\n"
        "Authorization: Bearer {token}\nContent-Length: 99999999999\nConnection: close\n\n"
    )
    answer = raw(server, head, b"{}")
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert "99999999999" in lines(server)[before]


def test_huge_bodies_without_a_length_are_bounded_too(server: Served) -> None:
    before = len(lines(server))

    def endless() -> Iterator[bytes]:
        for _ in range(2 + MOST_BYTES // 65536):
            yield b" " * 65536

    with server.client() as client:
        try:
            answer = client.post("/api/cases/case_0/edits", content=endless())
        except httpx.TransportError:  # the server may hang up while more is coming
            answer = None
    assert answer is None or answer.status_code == 413
    assert len(lines(server)[before:]) == 1


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\nHost: 127.0.0.1:{port}\nHost: evil\nAuthorization: Bearer {token}\n\n",
        "GARBAGE\n\n",
        "GET / HTTP/9.9\n\n",
        "GET /api/dataset HTTP/1.1\n\n",
        "POST /api/cases/case_0/hold HTTP/1.1\nHost: 127.0.0.1:{port}\nContent-Length: -5\n\n",
    ],
)
def test_broken_requests_do_no_harm(server: Served, request_text: str) -> None:
    answer = raw(server, request_text)
    assert not answer or answer.split(b" ", 2)[1] in (b"400", b"401", b"421", b"505")


def test_a_line_of_the_log_cannot_be_forged(server: Served) -> None:
    before = len(server.log.read_text().splitlines())
    head = "GET /x%0d%0aforged%20line HTTP/1.1\nHost: 127.0.0.1:{port}\nConnection: close\n\n"
    raw(server, head)
    new = server.log.read_text().splitlines()[before:]
    assert len(new) == 1
    assert not new[0].startswith("forged")


def test_every_answer_carries_the_security_headers(server: Served) -> None:
    with server.client() as client, bare(server) as stranger:
        for answer in (client.get("/"), client.get("/nowhere"), stranger.get("/")):
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert "server" not in answer.headers


def test_it_listens_on_this_machine_alone(server: Served) -> None:
    assert server.base.startswith("http://127.0.0.1:")
    with pytest.raises(OSError):  # noqa: PT012
        with socket.create_connection((socket.gethostbyname(socket.gethostname()), server.port), 2):
            pass
        if socket.gethostbyname(socket.gethostname()).startswith("127."):
            raise OSError("the machine knows itself as loopback alone")


def test_with_a_host_of_its_own_names_are_still_checked() -> None:
    doors = Doors("t", 8017, own_names("0.0.0.0", ["ward3"]), any_address=True)
    assert doors.is_own("ward3:8017")
    assert doors.is_own("10.0.0.7:8017")
    assert doors.is_own("localhost:8017")
    assert not doors.is_own("evil.example:8017")
    assert not doors.is_own("ward3:80")
    local = Doors("t", 8017, own_names("127.0.0.1", []))
    assert not local.is_own("10.0.0.7:8017")
