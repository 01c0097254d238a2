"""`ordered_map`: a map over threads that yields the results in order, with a bounded number of them waiting."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

# The number of items per thread that are in progress or waiting.
AHEAD = 2


def ordered_map(
    work: Callable[[Piece], Iterable[Result]],
    pieces: Iterable[Piece],
    threads: int,
    *,
    weigh: Callable[[Result], int],
    most: int,
    pays: Callable[[Piece], bool],
) -> Iterator[Result]:
    """Yield the results of work(piece) for each piece, in order; errors come after the results before them.

    Args:
        work: The function to call in the threads.
        pieces: The items to call it for.
        threads: The number of threads.
        weigh: Returns the weight of a result, for example its size in bytes.
        most: After results of this weight, the others of the same item are computed when the reader asks for them.
        pays: Returns whether to compute an item in a thread; otherwise it is computed when the reader asks for it.
    """
    source = iter(pieces)
    with ThreadPoolExecutor(threads, thread_name_prefix="kafkalog") as pool:
        waiting: deque[Callable[[], Iterable[Result]]] = deque()
        failure: Exception | None = None
        try:
            while True:
                try:
                    for piece in islice(source, threads * AHEAD - len(waiting)):
                        if pays(piece):
                            waiting.append(pool.submit(_collected, work, piece, weigh, most).result)
                        else:
                            waiting.append(partial(work, piece))
                except Exception as error:  # noqa: BLE001 - raised after the results before it
                    source, failure = iter(()), error
                if not waiting:
                    break
                yield from waiting.popleft()()
            if failure is not None:
                raise failure
        finally:
            pool.shutdown(cancel_futures=True)


def _collected(
    work: Callable[[Piece], Iterable[Result]], piece: Piece, weigh: Callable[[Result], int], most: int
) -> Iterator[Result]:
    """Compute results of one item up to the weight `most`; return an iterator over all of its results."""
    results, weight, rest = list[Result](), 0, iter(work(piece))
    try:
        for result in rest:
            results.append(result)
            weight += weigh(result)
            if weight >= most:
                break
    except Exception as error:  # noqa: BLE001 - raised after the results before it
        return _given(results, rest, error)
    return _given(results, rest)


def _given(results: list[Result], rest: Iterator[Result], error: Exception | None = None) -> Iterator[Result]:
    """Yield the results, dropping the reference to each so that its memory can be freed; then the error or the rest."""
    results.reverse()
    while results:
        yield results.pop()
    if error is not None:
        raise error
    yield from rest
