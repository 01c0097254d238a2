"""Work on pieces in several threads, results in order, a bounded number of them waiting."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# So many pieces are under way or waiting for each thread.
AHEAD = 2


def ordered_map(work: Callable[[Piece], Iterable[Result]], pieces: Iterable[Piece], threads: int) -> Iterator[Result]:
    """The results of work(piece), piece after piece; an error comes after the results before it, as without threads."""
    source = iter(pieces)
    with ThreadPoolExecutor(threads, thread_name_prefix="kafkalog") as pool:
        waiting: deque[Future[tuple[list[Result], BaseException | None]]] = deque()
        error: BaseException | None = None
        try:
            while True:
                if error is None:
                    error = _submit(pool, work, source, waiting, threads * AHEAD - len(waiting))
                if not waiting:
                    break
                results, failure = waiting.popleft().result()
                yield from results
                if failure is not None:
                    raise failure
            if error is not None:
                raise error
        finally:
            for future in waiting:
                future.cancel()


def _submit(
    pool: ThreadPoolExecutor,
    work: Callable[[Piece], Iterable[Result]],
    source: Iterator[Piece],
    waiting: "deque[Future[tuple[list[Result], BaseException | None]]]",
    count: int,
) -> BaseException | None:
    """Hand out `count` more pieces; the error that `source` ends in is kept for after their results."""
    try:
        for piece in islice(source, count):
            waiting.append(pool.submit(_collect, work, piece))
    except Exception as error:  # noqa: BLE001 - raised by the reader, in its turn
        return error
    return None


def _collect(work: Callable[[Piece], Iterable[Result]], piece: Piece) -> tuple[list[Result], BaseException | None]:
    results: list[Result] = []
    try:
        results.extend(work(piece))
    except Exception as error:  # noqa: BLE001 - raised by the reader, in its turn
        return results, error
    return results, None
