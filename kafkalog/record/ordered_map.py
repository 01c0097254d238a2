"""Work on pieces in several threads, results in order, a bounded number of them waiting."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# So many pieces are under way or waiting for each thread.
AHEAD = 2


class Answer(NamedTuple, Generic[Result]):
    """What one piece gave: its results, those that are still to be made, and the error after them."""

    results: list[Result]
    rest: Iterator[Result] | None = None
    error: BaseException | None = None


def ordered_map(
    work: Callable[[Piece], Iterable[Result]],
    pieces: Iterable[Piece],
    threads: int,
    weigh: Callable[[Result], int],
    most: int,
) -> Iterator[Result]:
    """The results of work(piece), piece after piece; an error comes after the results before it, as without threads.

    most: where the results of a piece weigh as much, those that follow are made when the reader has come to them.
    """
    source = iter(pieces)
    collect = partial(_collect, work, weigh, most)
    with ThreadPoolExecutor(threads, thread_name_prefix="kafkalog") as pool:
        waiting: deque[Future[Answer[Result]]] = deque()
        error: BaseException | None = None
        try:
            while True:
                if error is None:
                    error = _submit(pool, collect, source, waiting, threads * AHEAD - len(waiting))
                if not waiting:
                    break
                yield from _given(waiting.popleft().result())
            if error is not None:
                raise error
        finally:
            for future in waiting:
                future.cancel()


def _given(answer: Answer[Result]) -> Iterator[Result]:
    """The results; each is let go of before the next is made."""
    answer.results.reverse()
    while answer.results:
        yield answer.results.pop()
    if answer.error is not None:
        raise answer.error
    if answer.rest is not None:
        yield from answer.rest


def _submit(
    pool: ThreadPoolExecutor,
    collect: Callable[[Piece], Answer[Result]],
    source: Iterator[Piece],
    waiting: "deque[Future[Answer[Result]]]",
    count: int,
) -> BaseException | None:
    """Hand out `count` more pieces; the error that `source` ends in is kept for after their results."""
    try:
        for piece in islice(source, count):
            waiting.append(pool.submit(collect, piece))
    except Exception as error:  # noqa: BLE001 - raised by the reader, in its turn
        return error
    return None


def _collect(
    work: Callable[[Piece], Iterable[Result]], weigh: Callable[[Result], int], most: int, piece: Piece
) -> Answer[Result]:
    results: list[Result] = []
    weight = 0
    try:
        rest = iter(work(piece))
        for result in rest:
            results.append(result)
            weight += weigh(result)
            if weight >= most:
                return Answer(results, rest)
    except Exception as error:  # noqa: BLE001 - raised by the reader, in its turn
        return Answer(results, error=error)
    return Answer(results)
