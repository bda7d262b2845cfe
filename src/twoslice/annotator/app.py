"""The addresses of the annotator. All of them lie behind the guard."""

from __future__ import annotations

import json
import logging
import mimetypes
from importlib.resources import files
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from twoslice.annotator import edits as e
from twoslice.annotator.desk import Desk
from twoslice.annotator.errors import RequestError, UnknownError
from twoslice.annotator.guard import App, Doors, Guard, plain, query_token
from twoslice.annotator.pictures import packed
from twoslice.annotator.runs import to_screen
from twoslice.errors import TwosliceError
from twoslice.planes import Plane

log = logging.getLogger("twoslice.annotator")

Model = TypeVar("Model", bound=BaseModel)
_FOR_EVER = "private, max-age=31536000, immutable"
_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def make_app(desk: Desk, doors: Doors) -> App:
    """The application of one dataset, guarded."""
    routes = _Routes(desk, doors)
    inner = Starlette(
        routes=[
            Route("/", routes.entry),
            Route("/page/{name}", routes.page_file),
            Route("/api/dataset", routes.overview),
            Route("/api/cases/{case}/open", routes.open, methods=["POST"]),
            Route("/api/cases/{case}/drawing", routes.drawing),
            Route("/api/cases/{case}/slices/{channel:int}/{plane}/{index:int}", routes.slice),
            Route("/api/cases/{case}/edits", routes.edit, methods=["POST"]),
            Route("/api/cases/{case}/hold", routes.hold, methods=["POST"]),
            Route("/api/cases/{case}/release", routes.release, methods=["POST"]),
            Route("/api/cases/{case}/note", routes.note, methods=["POST"]),
            Route("/api/cases/{case}/reload", routes.reload, methods=["POST"]),
            Route("/api/cases/{case}/warm", routes.warm, methods=["POST"]),
            Route("/api/cases/{case}/preview", routes.preview, methods=["POST"]),
            Route("/api/cases/{case}/preview/{version}/{plane}/{index:int}", routes.preview_slice),
        ],
        exception_handlers={RequestError: _told, HTTPException: _http, TwosliceError: _told},
    )
    return Guard(inner, doors)


class _Routes:
    """One method an address. What takes long runs in a thread, so that others are not kept."""

    def __init__(self, desk: Desk, doors: Doors) -> None:
        self.desk, self.doors = desk, doors
        self.files = page_files()

    async def entry(self, request: Request) -> Response:
        """The page. The token moves from the address into a cookie that no script can read."""
        if query_token(request.scope) is not None:
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(
                self.doors.cookie, self.doors.token, httponly=True, samesite="strict", path="/"
            )
            return answer
        return _file("index.html", self.files["index.html"])

    async def page_file(self, request: Request) -> Response:
        """A file of the page, from the fixed list of them."""
        name = request.path_params["name"]
        if name not in self.files:
            raise UnknownError("there is no such file.")
        return _file(name, self.files[name])

    async def overview(self, request: Request) -> Response:
        """The dataset and its scans."""
        return JSONResponse(await run_in_threadpool(self.desk.overview))

    async def open(self, request: Request) -> Response:
        """One case, whole."""
        body = await _body(request, e.HoldRequest)
        return JSONResponse(await run_in_threadpool(self.desk.open, _case(request), body.client))

    async def drawing(self, request: Request) -> Response:
        """The drawing of a case as it is now."""
        table = self.desk.table(_case(request))
        return JSONResponse(await run_in_threadpool(table.state))

    async def slice(self, request: Request) -> Response:
        """One slice of a scan; `?stamp=` names the file's state, so it may be kept for ever."""
        case, plane, index = _case(request), _plane(request), request.path_params["index"]
        channel = request.path_params["channel"]
        picture = await run_in_threadpool(self.desk.picture, case)
        if channel >= len(picture.channels) or index >= picture.shape[plane.axis]:
            raise UnknownError(f"there is no {plane} slice {index} in channel {channel}.")
        content = await run_in_threadpool(
            self.desk.pictures.slice_bytes, case, channel, plane, index
        )
        fresh = request.query_params.get("stamp") == picture.stamp
        return _packed(content, cache=_FOR_EVER if fresh else "no-store")

    async def edit(self, request: Request) -> Response:
        """Do and save edits."""
        body = await _body(request, e.EditRequest)
        return JSONResponse(await run_in_threadpool(self.desk.edit, _case(request), body))

    async def hold(self, request: Request) -> Response:
        """The page still has the case open."""
        body = await _body(request, e.HoldRequest)
        table = self.desk.table(_case(request))
        mine = await run_in_threadpool(lambda: table.hold(body.client, take=body.take))
        return JSONResponse({"mine": mine})

    async def release(self, request: Request) -> Response:
        """The page lets the case go."""
        body = await _body(request, e.HoldRequest)
        await run_in_threadpool(self.desk.table(_case(request)).release, body.client)
        return JSONResponse({})

    async def note(self, request: Request) -> Response:
        """Finish, flag; and what comes next."""
        body = await _body(request, e.NoteRequest)
        case = _case(request)
        table = self.desk.table(case)
        await run_in_threadpool(table.note, body)
        following, why = self.desk.next_case(after=case)
        notes = {"finished": table.notes.finished, "flag": table.notes.flag}
        return JSONResponse({"notes": notes, "next": following, "why": why})

    async def reload(self, request: Request) -> Response:
        """Read the label file anew: another program wrote it."""
        table = self.desk.table(_case(request))
        await run_in_threadpool(table.reload)
        return JSONResponse(await run_in_threadpool(table.state))

    async def warm(self, request: Request) -> Response:
        """Read a scan ahead of its being opened."""
        await run_in_threadpool(self.desk.picture, _case(request))
        return JSONResponse({})

    async def preview(self, request: Request) -> Response:
        """Propagate what is drawn."""
        await _body(request, e.PreviewRequest)
        made = await run_in_threadpool(self.desk.preview, _case(request))
        return JSONResponse(
            {
                "version": made.version,
                "seconds": round(made.seconds, 2),
                "expected": made.expected,
                "steps": made.steps,
            }
        )

    async def preview_slice(self, request: Request) -> Response:
        """One slice of a preview."""
        parts = request.path_params
        mask = await run_in_threadpool(
            self.desk.preview_mask,
            _case(request),
            parts["version"],
            _plane(request),
            parts["index"],
        )
        content = packed(np.ascontiguousarray(to_screen(mask)).tobytes())
        return _packed(content, cache="private, max-age=3600")


def page_files() -> dict[str, bytes]:
    """The files of the page by name, read once: no address leads to any other."""
    folder = files("twoslice.annotator") / "page"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}


def _file(name: str, content: bytes) -> Response:
    ending = f".{name.rpartition('.')[2]}"
    kind = _KINDS.get(ending) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


def _packed(content: bytes, *, cache: str) -> Response:
    headers = {"Content-Encoding": "gzip", "Cache-Control": cache}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _case(request: Request) -> str:
    return str(request.path_params["case"])


def _plane(request: Request) -> Plane:
    try:
        return Plane(request.path_params["plane"])
    except ValueError:
        raise UnknownError("there is no such plane.") from None


async def _body(request: Request, model: type[Model]) -> Model:
    """The request's JSON, checked."""
    raw = await request.body()
    try:
        return model.model_validate(json.loads(raw))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise RequestError(f"{where or 'the body'}: {fault['msg']}.") from None
    except (ValueError, RecursionError):
        raise RequestError("the body is not JSON that can be read.") from None


async def _told(request: Request, error: Exception) -> Response:
    """A refusal: a line in the log, a line for the page."""
    status = error.status if isinstance(error, RequestError) else 500
    code = error.code if isinstance(error, RequestError) else "fault"
    _log(request, str(error))
    return JSONResponse({"error": code, "message": str(error)}, status_code=status)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    _log(request, str(error.detail))
    return JSONResponse(
        {"error": "unknown", "message": str(error.detail)}, status_code=error.status_code
    )


def _log(request: Request, why: str) -> None:
    client = request.client.host if request.client else "?"
    line = f"refused: {request.method} {request.scope['path']} from {client}: {why}"
    log.warning("%s", plain(line))
