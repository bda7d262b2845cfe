"""Start the annotator: bind, print the link, serve until Ctrl-C."""

from __future__ import annotations

import logging
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from ipaddress import ip_address

from twoslice.annotator.desk import Desk
from twoslice.annotator.guard import Doors, own_names
from twoslice.annotator.plan import Plan
from twoslice.errors import SettingsError
from twoslice.io.dataset import Dataset

USUAL_PORT = 8017
_LOCAL = "127.0.0.1"


def listen(host: str, port: int | None) -> socket.socket:
    """A bound socket; without a port, the usual one or, where that is taken, any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wished = [USUAL_PORT, 0] if port is None else [port]
    fault: OSError | None = None
    for number in wished:
        # With its protocol named, asyncio sends small answers at once; without, each one waits
        # for the other side's delayed acknowledgement, 40 ms.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, number))
            bound.listen(128)  # who follows the link at once waits, and is not refused
        except OSError as error:
            bound.close()
            fault = error
            continue
        return bound
    assert fault is not None
    where = f"{host}:{port}" if port is not None else host
    raise SettingsError(f"{where}: {fault.strerror or fault}. Choose another --port or --host.")


def annotate(
    dataset: Dataset,
    *,
    plan: Plan | None = None,
    host: str = _LOCAL,
    port: int | None = None,
    browser: bool = True,
) -> None:
    """Open the annotator on a dataset and serve it until it is stopped; the link is printed."""
    serve(Desk(dataset, plan or Plan()), host=host, port=port, browser=browser, say=_print_at_once)


def serve(
    desk: Desk,
    *,
    host: str = _LOCAL,
    port: int | None = None,
    browser: bool = True,
    say: Callable[[str], None],
    token: str | None = None,
) -> None:
    """Serve a dataset until the person stops it. `say` prints the link on a line of its own."""
    import uvicorn

    from twoslice.annotator.app import make_app

    bound = listen(host, port)
    number = int(bound.getsockname()[1])
    machine = _machine_names() if host not in (_LOCAL, "localhost", "::1") else []
    doors = Doors(
        token=token or secrets.token_urlsafe(32),
        port=number,
        names=own_names(host, machine),
        any_address=_is_everywhere(host),
    )
    link = f"http://{_shown(host, machine)}:{number}/?token={doors.token}"
    _log_to_stderr()
    config = uvicorn.Config(
        make_app(desk, doors),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
    )
    say(link)
    threading.Thread(target=desk.read_all, daemon=True, name="read labels").start()
    if browser:
        threading.Timer(0.5, webbrowser.open, [link]).start()
    uvicorn.Server(config).run(sockets=[bound])


def _print_at_once(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _log_to_stderr() -> None:
    logger = logging.getLogger("twoslice.annotator")
    if not logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def _machine_names() -> list[str]:
    """What others call this machine."""
    return list(dict.fromkeys([socket.gethostname(), socket.getfqdn()]))


def _is_everywhere(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def _shown(host: str, machine: list[str]) -> str:
    """The name in the printed link."""
    if _is_everywhere(host):
        return machine[0]
    return f"[{host}]" if ":" in host else host
