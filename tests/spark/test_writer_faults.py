"""What a writer leaves where the disk is full or refuses: all of a job or nothing, no file of its own, and the path."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from unittest import mock

import pytest

from kafkalog.errors import LogStateError
from kafkalog.spark.write import commit as exchange
from kafkalog.spark.write import job as writer
from kafkalog.spark.write import task_files
from kafkalog.spark.write.job import WriteJob, recover
from kafkalog.spark.write.task_files import TaskFiles
from kafkalog.storage.checkpoint.clean_shutdown_file import was_clean_shutdown
from kafkalog.storage.data_dir import session as data_dir_session
from kafkalog.storage.file_names import CLEAN_SHUTDOWN_FILE
from tests.crash.disk import Disk, Fail
from tests.helpers.indexes import fill, small_disk
from tests.helpers.spark_writing import (
    partitions_in,
    rows,
    started,
    state_of,
    values,
    values_in,
    without_exchange,
    written,
)

REFUSALS = [errno.ENOSPC, errno.EACCES]
FOREVER = 10**6
OLD = [b"old %d" % i * 60 for i in range(20)]
NEW = [b"new %d" % i * 60 for i in range(9)]


class WritersDisk(Disk):
    """Also what only a writer of Spark's asks of the system: links, copies, two names exchanged, tasks' files."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._patch(os, "link", self._renaming)
        self._patch(os, "sendfile", self._by_descriptor)
        self._patch(exchange, "_exchanged", self._renaming)
        self._patches.enter_context(mock.patch.object(task_files, "open", self._open_file, create=True))
        return self


@pytest.fixture(autouse=True)
def one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the n-th call is the same one in each run."""
    monkeypatch.setattr(writer, "_JOINED_AT_ONCE", 1)


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """What is looked at is not how long a disk takes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as directory:
        yield Path(directory)


# --- the jobs, and what is there before and after


def there_before(path: Path) -> None:
    """t-0 of three segments, and t-2, which goes where t is replaced."""
    written(path, [values(*OLD, partition=0), values(b"old", partition=2)], batchBytes=500, segmentBytes="3k")


def appending(path: Path) -> WriteJob:
    return started(path, segmentBytes="3k", batchBytes=500)


def replacing(path: Path) -> WriteJob:
    return started(path, overwrite=True, topic="t", partitions=2, segmentBytes="3k", batchBytes=500)


def tasks_of(job: WriteJob) -> list[TaskFiles]:
    return [job.write([values(*NEW, partition=n)], n) for n in range(2)]


def found_in(path: Path) -> dict[str, list[bytes | None]]:
    return {name: values_in(path, name) for name in partitions_in(path) if name != exchange.TEMPORARY}


BEFORE: dict[str, list[bytes]] = {"t-0": OLD, "t-2": [b"old"]}
AFTER: dict[Any, dict[str, list[bytes]]] = {
    appending: {"t-0": OLD + NEW, "t-1": NEW, "t-2": [b"old"]},
    replacing: {"t-0": NEW, "t-1": NEW},
}
jobs = pytest.mark.parametrize("job_in", [appending, replacing])


def logs_in(path: Path) -> dict[str, bytes]:
    """Every file but the job's own, and the mark of a clean stop, which a disk that stays full does not take."""
    left_out = exchange.TEMPORARY, CLEAN_SHUTDOWN_FILE
    return {name: data for name, data in state_of(path).items() if not name.startswith(left_out)}


def names_a_path_in(root: Path, error: BaseException) -> bool:
    if isinstance(error, ExceptionGroup):
        return all(names_a_path_in(root, each) for each in error.exceptions)
    # LogStateError: a segment was flushed in vain before, and the error says which, and why.
    why = isinstance(error, OSError | LogStateError) and any(os.strerror(code) in str(error) for code in REFUSALS)
    return why and str(root) in str(error)


def refusal_of(action: Callable[[], object]) -> Exception | None:
    """What is raised where the disk refuses; None where it is done."""
    try:
        action()
    except (OSError, LogStateError, ExceptionGroup) as error:
        return error
    return None


def before_syncing(monkeypatch: pytest.MonkeyPatch, act: Callable[[os.stat_result], None]) -> None:
    """Whenever a directory is to be synced, `act` is called with its stat first; what it raises is the disk's error."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            act(found)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def is_that(found: os.stat_result, directory: Path) -> bool:
    return directory.exists() and os.path.samestat(found, directory.stat())


def input_output_error() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))


# --- a call that fails


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("times", [1, FOREVER])
def test_a_task_leaves_nothing_where_the_disk_refuses_any_call(in_memory: Path, code: int, times: int) -> None:
    job, calls = started(in_memory, batchBytes=500), 0
    rows_of_both = [values(*NEW, partition=n) for n in range(2)]
    for at in range(1, 10**6):
        with WritersDisk(in_memory, Fail(at, times, code, half=True)) as disk:
            error = refusal_of(lambda: job.write(rows_of_both))
        if error is None:
            break
        assert names_a_path_in(in_memory, error), (at, disk.names[-1], error)
        assert list((job.directory / exchange.TASKS).iterdir()) == []
        calls = at
    assert calls > 20


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("times", [1, FOREVER])
def test_a_job_that_cannot_begin_leaves_nothing_where_the_disk_refuses_any_call(
    in_memory: Path, code: int, times: int
) -> None:
    there_before(in_memory)
    before, calls = state_of(in_memory), 0
    for at in range(1, 10**6):
        with WritersDisk(in_memory, Fail(at, times, code)) as disk:
            error = refusal_of(lambda: appending(in_memory))
        if error is None:
            break
        assert names_a_path_in(in_memory, error), (at, disk.names[-1], error)
        assert state_of(in_memory) == before
        assert not (in_memory / exchange.TEMPORARY).exists()
        calls = at
    assert calls >= 3


# Of a commit's calls, which are about 150: the first that fails, and after how many the next one in the next run.
A_FEW, EACH_FIFTH = 29, 5
# Whether the system exchanges names, from which call on, how many calls, which error.
REFUSED_COMMITS = [
    (True, 1, A_FEW, 1, errno.ENOSPC),
    (False, 11, A_FEW, FOREVER, errno.EACCES),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in [
            (True, 1, EACH_FIFTH, 1, errno.ENOSPC),
            (True, 2, EACH_FIFTH, FOREVER, errno.ENOSPC),
            (True, 3, EACH_FIFTH, FOREVER, errno.EACCES),
            (False, 4, EACH_FIFTH, 1, errno.ENOSPC),
            (False, 5, EACH_FIFTH, FOREVER, errno.ENOSPC),
        ]
    ),
]


@pytest.mark.slow
@jobs
@pytest.mark.parametrize(("exchanges", "first", "step", "times", "code"), REFUSED_COMMITS)
def test_a_commit_changes_all_or_nothing_where_the_disk_refuses_any_call(
    in_memory: Path,
    monkeypatch: pytest.MonkeyPatch,
    job_in: Any,
    exchanges: bool,
    first: int,
    step: int,
    times: int,
    code: int,
) -> None:
    if not exchanges:
        without_exchange(monkeypatch)
    outcomes = set()
    there_before(in_memory / "before")
    for at in range(first, 10**6, step):
        path = in_memory / str(at)
        shutil.copytree(in_memory / "before", path)
        outcomes.add(outcome := committed_on(path, job_in, Fail(at, times, code, half=True)))
        if outcome == "not refused":
            break
    assert {"put back", "not refused"} <= outcomes


def committed_on(path: Path, job_in: Callable[[Path], WriteJob], fault: Fail) -> str:
    """A commit whose call fails; what became of it, when all has been looked at."""
    before, job = logs_in(path), job_in(path)
    messages = tasks_of(job)
    with WritersDisk(path, fault) as disk:
        error = refusal_of(lambda: job.commit(messages))
        disk.heal()
    if error is None:
        outcome = "not refused" if disk.calls < fault.at else "done without"
    else:
        assert names_a_path_in(path, error), (fault, disk.names[fault.at - 1], error)
        outcome = "put back"
    if (job.directory / exchange.JOURNAL).exists():
        assert error is None or "completes it: do not write it again" in str(error), (fault, error)
        job.abort()
        assert recover(path) == [job.directory]
        outcome = "completed later"
    elif outcome == "put back":
        assert found_in(path) == BEFORE, (fault, disk.names[fault.at - 1], error)
        assert logs_in(path) == before
        job.abort()
    else:
        assert found_in(path) == AFTER[job_in]
    assert not (path / exchange.TEMPORARY).exists(), (fault, outcome)
    written(path, [values(b"more", partition=0)])
    assert values_in(path)[-1] == b"more"
    return outcome


@pytest.mark.parametrize("refused", [1, 2])
def test_a_commit_that_failed_does_not_come_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """Neither the job's directory nor the one above it is on the disk, though commit.json is there."""
    written(tmp_path, [values(b"before")])
    job = started(tmp_path)
    messages = [job.write([values(b"new")])]
    synced: list[Path] = []

    def refuse(found: os.stat_result) -> None:
        if (job.directory / exchange.JOURNAL).exists():
            of_the_job = [each for each in (job.directory, job.directory.parent) if is_that(found, each)]
            synced.extend(of_the_job)
            if of_the_job and len(synced) == refused:
                raise input_output_error()

    with monkeypatch.context() as patched:
        before_syncing(patched, refuse)
        with pytest.raises(OSError, match="Input/output error"):
            job.commit(messages)
    assert synced[:refused] == [job.directory, job.directory.parent][:refused]
    job.abort()
    assert not (tmp_path / exchange.TEMPORARY).exists()
    written(tmp_path, [values(b"new")])
    assert values_in(tmp_path) == [b"before", b"new"]


def refusing_to_unlink(path: Path) -> Callable[..., None]:
    real = os.unlink

    def unlink(file: Any, *arguments: Any, **options: Any) -> None:
        if Path(file) == path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(file))
        real(file, *arguments, **options)

    return unlink


def test_a_commit_that_can_be_neither_done_nor_taken_back_says_that_it_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, [values(b"before")])
    job = started(tmp_path)
    messages = [job.write([values(b"new")])]

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refusing_to_unlink(job.directory / exchange.JOURNAL))
        patched.setattr(data_dir_session.Session, "update_checkpoints", refuse)
        with pytest.raises(ExceptionGroup, match=r"committed but not complete; .* completes it") as caught:
            job.commit(messages)
        errors = [error for error in caught.value.exceptions if isinstance(error, OSError)]
        assert [error.errno for error in errors] == [errno.EIO, errno.ENOSPC]
        job.abort()
    assert f"{job.directory} is committed; the next job completes it" in caplog.messages
    assert values_in(tmp_path) == [b"before"]
    written(tmp_path, [values(b"more")])
    assert values_in(tmp_path) == [b"before", b"new", b"more"]


def test_a_removal_that_may_not_outlast_a_power_cut_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = started(tmp_path)
    messages = [job.write([values(b"new")])]

    def refuse(found: os.stat_result) -> None:
        # Not where commit.json has just been put.
        of_the_job = is_that(found, job.directory) and not (job.directory / exchange.JOURNAL).exists()
        if of_the_job or is_that(found, job.directory.parent):
            raise input_output_error()

    before_syncing(monkeypatch, refuse)
    with pytest.raises(ExceptionGroup, match=r"commit\.json may reappear after a power failure"):
        job.commit(messages)
    job.abort()
    assert recover(tmp_path) == []
    assert partitions_in(tmp_path) == []


# --- what is done stays done


def test_a_job_without_the_mark_of_a_clean_stop_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "the mark")

    with monkeypatch.context() as patched:
        patched.setattr(data_dir_session, "write_clean_shutdown", refuse)
        written(tmp_path, [values(b"0")])
    what = "the clean shutdown file was not written; logs are recovered when they are next opened"
    assert caplog.messages == [f"{tmp_path}: {what}: [Errno 28] No space left on device: 'the mark'"]
    assert not was_clean_shutdown(tmp_path)
    assert values_in(tmp_path) == [b"0"]
    written(tmp_path, [values(b"1")])
    assert values_in(tmp_path) == [b"0", b"1"]
    assert was_clean_shutdown(tmp_path)


def test_a_job_whose_directory_cannot_be_removed_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    there_before(tmp_path)
    job = replacing(tmp_path)
    messages = tasks_of(job)
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refusing_to_unlink(job.directory / exchange.JOURNAL))
        job.commit(messages)
    assert [message.partition(":")[0] for message in caplog.messages] == [str(job.directory)]
    assert "the job is complete; the next job there, or `recover`, removes this directory: [Errno 5]" in caplog.text
    assert found_in(tmp_path) == AFTER[replacing]
    assert recover(tmp_path) == [job.directory]
    assert found_in(tmp_path) == AFTER[replacing]
    assert not (tmp_path / exchange.TEMPORARY).exists()


def test_a_done_job_is_not_repeated_after_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """t-2 is removed by a job and made anew by the next; then names come back whose removal was not synced."""
    there_before(tmp_path)
    job = replacing(tmp_path)
    messages, journal, on_disk = tasks_of(job), job.directory / exchange.JOURNAL, [b""]

    def note(found: os.stat_result) -> None:
        if is_that(found, job.directory):
            on_disk.append(journal.read_bytes() if journal.exists() else b"")

    with monkeypatch.context() as patched:
        before_syncing(patched, note)
        job.commit(messages)
    assert any(on_disk)
    written(tmp_path, [values(b"later", partition=2)])
    if on_disk[-1]:
        (journal.parent / exchange.OLD).mkdir(parents=True)
        journal.write_bytes(on_disk[-1])
    recover(tmp_path)
    assert found_in(tmp_path) == {**AFTER[replacing], "t-2": [b"later"]}


def test_a_job_that_is_done_is_so_where_the_removal_of_what_it_committed_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = started(tmp_path)
    messages, journal = [job.write([values(b"new")])], job.directory / exchange.JOURNAL
    committed: list[bool] = []

    def refuse(found: os.stat_result) -> None:
        if is_that(found, job.directory) and any(committed) and not journal.exists():
            raise input_output_error()
        committed.append(journal.exists())

    before_syncing(monkeypatch, refuse)
    job.commit(messages)
    assert [message.partition(":")[0] for message in caplog.messages] == [str(journal)]
    assert "if it reappears after a power failure" in caplog.text
    assert values_in(tmp_path) == [b"new"]
    assert not (tmp_path / exchange.TEMPORARY).exists()


def test_recover_takes_a_path_as_text(tmp_path: Path) -> None:
    written(tmp_path, [values(b"0")])
    assert recover(str(tmp_path)) == []


# --- a disk that is full


@pytest.mark.slow
@jobs
def test_on_a_disk_of_any_room_a_job_is_done_or_leaves_what_was_there(tmp_path: Path, job_in: Any) -> None:
    outcomes = set()
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        path = disk / "data"
        there_before(path)
        before, filling = state_of(path), fill(disk)
        for pages in range(0, 256, 3):
            os.truncate(filling, max(0, filling.stat().st_size - 3 * 4096 * bool(pages)))
            error = refusal_of(lambda: driven(job_in(path)))
            assert not (path / exchange.TEMPORARY).exists()
            outcomes.add("written" if error is None else "full")
            if error is None:
                assert found_in(path) == AFTER[job_in]
                break
            assert names_a_path_in(disk, error), error
            assert state_of(path) | missing_mark(path, before) == before
            assert found_in(path) == BEFORE
    assert outcomes == {"full", "written"}


def driven(job: WriteJob) -> None:
    """As Spark does it."""
    try:
        job.commit(tasks_of(job))
    except BaseException:
        job.abort()
        raise


def missing_mark(path: Path, before: dict[str, bytes]) -> dict[str, bytes]:
    """The mark of a clean stop, where the disk had no room for it: logs are then recovered when they are opened."""
    return {} if (path / CLEAN_SHUTDOWN_FILE).exists() else {CLEAN_SHUTDOWN_FILE: before[CLEAN_SHUTDOWN_FILE]}


# --- no permission


@contextmanager
def without_permission(directory: Path) -> Iterator[None]:
    """Nothing can be made in a directory, by whoever runs this: root, whom nothing keeps out, is somebody else."""
    mode, user = stat.S_IMODE(directory.stat().st_mode), os.geteuid()
    directory.chmod(0o555)
    try:
        if user == 0:
            os.seteuid(65534)
        yield
    finally:
        if user == 0:
            os.seteuid(0)
        directory.chmod(mode)


@pytest.fixture
def ours() -> Iterator[Path]:
    """A directory that others may enter."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        (Path(directory) / "data").mkdir()
        yield Path(directory) / "data"


def everybodys(path: Path) -> None:
    for each in [path, *path.rglob("*")]:
        each.chmod(0o777 if each.is_dir() else 0o666)


def test_a_job_does_not_begin_without_permission_to_write(ours: Path) -> None:
    there_before(ours)
    before = state_of(ours)
    for path in (ours, ours / "new"):
        with without_permission(ours), pytest.raises(PermissionError, match=str(path)):
            appending(path)
    assert state_of(ours) == before
    assert not (ours / exchange.TEMPORARY).exists()


@jobs
@pytest.mark.parametrize("forbidden", ["", "t-0", exchange.TEMPORARY])
def test_losing_permission_during_a_job_changes_nothing(ours: Path, job_in: Any, forbidden: str) -> None:
    there_before(ours)
    before, job = logs_in(ours), job_in(ours)
    messages = tasks_of(job)
    everybodys(ours)
    with without_permission(ours / forbidden), suppress(PermissionError):
        job.commit(messages)
        # The directory's own permission is nobody's business who only renames it.
        assert forbidden != ""
    if found_in(ours) == BEFORE:
        assert logs_in(ours) == before
        job.abort()
    else:
        assert found_in(ours) == AFTER[job_in]
    assert not (ours / exchange.TEMPORARY).exists()


def test_a_task_that_may_not_write_says_where(ours: Path) -> None:
    job = started(ours)
    tasks = job.directory / exchange.TASKS
    with without_permission(tasks), pytest.raises(PermissionError, match=str(tasks)):
        job.write([rows({"value": b"v", "topic": "t"})])
    assert list(tasks.iterdir()) == []
