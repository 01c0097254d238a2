"""One call at a time on an object that several workers may have been given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def locked(method: Method) -> Method:
    """The method, done while the object's `lock` is held: other threads wait for it, some milliseconds."""

    @functools.wraps(method)
    def done(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            return method(self, *args, **kwargs)

    return done  # type: ignore[return-value]
