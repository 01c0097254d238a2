"""`ordered_map`: a map over threads that yields the results in order, with a bounded number of them waiting."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# The number of items per thread that are in progress or waiting.
AHEAD = 2


class Answer(NamedTuple, Generic[Result]):
    """The results of one item, the iterator over those not computed yet, and the error after the results."""

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
    """Yield the results of work(piece) for each piece, in order; errors come after the results before them.

    Args:
        work: The function to call in the threads.
        pieces: The items to call it for.
        threads: The number of threads.
        weigh: Returns the weight of a result, for example its size in bytes.
        most: After results of this weight, the others of the same item are computed when the reader asks for them.
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
    """Yield the results of one item, dropping the reference to each so that its memory can be freed."""
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
    """Submit up to `count` more items; return the error that `source` raised, to be raised after their results."""
    try:
        for piece in islice(source, count):
            waiting.append(pool.submit(collect, piece))
    except Exception as error:  # noqa: BLE001 - ordered_map raises it after the results before it
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
    except Exception as error:  # noqa: BLE001 - ordered_map raises it after the results before it
        return Answer(results, error=error)
    return Answer(results)
