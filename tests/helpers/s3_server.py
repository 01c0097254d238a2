"""A server of the S3 protocol on loopback, which notes requests and fails where a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

BUCKET = "backup"
CREDENTIALS = {"key": "somebody", "secret": "something"}


class Request(NamedTuple):
    """What was asked for: the method, the object, and which bytes of it (None: all)."""

    method: str
    key: str
    bytes: range | None


class S3Server:
    """moto's server in a thread, with one bucket. fault: what to answer in its place, if anything."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, *_: Any) -> None:
                pass

        self.requests: list[Request] = []
        self.fault: Callable[[Any], Iterable[bytes]] | None = None
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        key = environ["PATH_INFO"].removeprefix(f"/{BUCKET}").lstrip("/")
        if key:
            self.requests.append(Request(environ["REQUEST_METHOD"], key, _range(environ.get("HTTP_RANGE"))))
        if self.fault is not None:
            return self.fault(start_response)
        found: Iterable[bytes] = self._application(environ, start_response)
        return found

    @property
    def options(self) -> dict[str, str]:
        """What s3fs is to be configured with."""
        return {"endpoint_url": self.url, **CREDENTIALS}

    def put(self, directory: Path, prefix: str) -> None:
        """All files below a directory."""
        client = import_module("boto3").client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["key"],
            aws_secret_access_key=CREDENTIALS["secret"],
        )
        client.create_bucket(Bucket=BUCKET)
        for path in directory.rglob("*"):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(directory).as_posix()}"
                client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
        client.close()
        self.requests.clear()

    def close(self) -> None:
        """It can be closed twice."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _range(header: str | None) -> range | None:
    if header is None:
        return None
    first, _, last = header.removeprefix("bytes=").partition("-")
    return range(int(first), int(last) + 1)


def answers(status: str) -> Callable[[Any], Iterable[bytes]]:
    """An error without a body, as HEAD has it."""

    def answer(start_response: Any) -> Iterable[bytes]:
        start_response(status, [("Content-Length", "0")])
        return []

    return answer


def hangs(gives_up: threading.Event, seconds: float) -> Callable[[Any], Iterable[bytes]]:
    """An answer that does not come before the server gives up, or so long has passed."""

    def answer(start_response: Any) -> Iterable[bytes]:
        gives_up.wait(seconds)
        return answers("503 Slow Down")(start_response)

    return answer
