"""A broker on the directories that kafkalog wrote, and kafkalog on the broker's: `broker_story.py` tells what happens.

The story takes the longest and happens once; each test checks a part of what was seen.
"""

import re
from itertools import zip_longest

import pytest

from tests.oracle import java
from tests.oracle.broker import View
from tests.oracle.broker_story import PARTITIONS, Page, Story, tell

pytestmark = [pytest.mark.oracle, pytest.mark.broker]

# What a broker says of itself at every start and stop; and of the one directory that it is right to put aside.
USUAL = re.compile(
    r"QuorumController - .*Performing controller activation"
    r"|NetworkClient - .*Attempting to close NetworkClient that has already been closed"
    # What it says of a slow machine.
    r"|^(WARN|ERROR) (org\.apache\.kafka\.(clients|controller|queue|raft)"
    r"|kafka\.(raft|server\.(\w*Controller|BrokerLifecycle)))"
    r"|unknown-0"
)
COMPLAINT = re.compile(
    r"^(WARN|ERROR|Exception)|recovering (unflushed|\d+ logs)|rebuild(ing)? .*index|unclean|corrupt", re.IGNORECASE
)
# Retention meets the cleaner at work, now and then: both begin again a little later, and no log is affected.
IN_EACH_OTHERS_WAY = re.compile(r"IllegalStateException: Compaction for partition \S+ cannot be resumed")
SEEN_BY_BROKER = ["after_append", "after_recovery"]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    try:
        return tell(tmp_path_factory.mktemp("broker"))
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")


def complaints(said: list[str]) -> list[str]:
    """Lines about trouble, but for the log of the cluster's metadata, which is recovered at every start."""
    with_next = zip_longest(said, said[1:], fillvalue="")
    lines = [line for line, reason in with_next if COMPLAINT.search(line) and not IN_EACH_OTHERS_WAY.search(reason)]
    return [line for line in lines if "__cluster_metadata" not in line and not USUAL.search(line)]


def page(story: Story, name: str) -> Page:
    found: Page = getattr(story, name)
    return found


def records(view: View) -> tuple[object, object]:
    return view.uncommitted, view.committed


def test_a_broker_keeps_kafkalog_from_writing_anywhere_below_its_directory(story: Story) -> None:
    assert len(story.refused) == 2
    assert all("locked" in each for each in story.refused)


def test_kafkalog_reads_along_with_a_broker_that_appends_and_rolls(story: Story) -> None:
    for found, expected in story.read_along:
        assert found == expected
    assert story.segments_read_along > 2


def test_a_broker_does_not_start_where_kafkalog_has_one_partition_open(story: Story) -> None:
    assert "Failed to acquire lock on file .lock" in story.refusal_of_broker
    assert "Kafka Server started" not in story.refusal_of_broker


def test_kafkalog_takes_over_all_partitions_of_a_broker_but_the_metadata_of_its_cluster(story: Story) -> None:
    assert {*PARTITIONS, "killed-0", "__transaction_state-0"} == set(story.loaded)


def test_a_truncation_inside_a_brokers_batch_ends_at_the_offset_given(story: Story) -> None:
    assert story.end_after_cut == 15


@pytest.mark.parametrize("moment", SEEN_BY_BROKER)
def test_a_broker_starts_on_a_directory_that_kafkalog_closed_without_recovering_anything(
    story: Story, moment: str
) -> None:
    said = page(story, moment).broker_said
    assert any("Skipping recovery of" in line for line in said)
    assert complaints(said) == []


@pytest.mark.parametrize("moment", SEEN_BY_BROKER)
@pytest.mark.parametrize("name", PARTITIONS)
def test_a_consumer_gets_exactly_what_was_written_under_both_isolation_levels(
    story: Story, moment: str, name: str
) -> None:
    found = page(story, moment)
    assert records(found.brokers[name]) == found.ledger[name]


@pytest.mark.parametrize("moment", SEEN_BY_BROKER)
@pytest.mark.parametrize("name", PARTITIONS)
def test_a_broker_shows_the_same_view_of_a_partition_as_kafkalog_before(story: Story, moment: str, name: str) -> None:
    found = page(story, moment)
    assert found.brokers[name] == found.ours[name]


def test_a_broker_puts_a_partition_of_no_topic_aside(story: Story) -> None:
    assert [name.rpartition("-")[2] for name in story.left_aside] == ["stray"]


@pytest.mark.parametrize("name", PARTITIONS)
def test_kafkalog_recovers_all_that_a_killed_broker_had_acknowledged(story: Story, name: str) -> None:
    found = story.after_crash_of_broker
    assert records(found.ours[name]) == found.ledger[name]
    assert story.recovered_bytes > 0


def test_a_batch_sent_twice_is_a_duplicate_after_a_broker_was_killed_in_between(story: Story) -> None:
    assert story.duplicates == [True, True]


def test_a_transaction_that_a_broker_left_undecided_is_decided_by_kafkalog(story: Story) -> None:
    before, after = (story.after_append.brokers["hanging-0"], story.after_recovery.brokers["hanging-0"])
    assert before.stable < before.end
    assert after.stable == after.end


@pytest.mark.parametrize("name", ["rolled-0", "retained-0"])
def test_records_that_either_of_them_deleted_are_gone_for_the_other(story: Story, name: str) -> None:
    looks = [story.after_append.brokers, story.after_crash_of_broker.ours, story.after_recovery.brokers]
    lows = [look[name].low for look in looks]
    assert lows[0] < lows[1]
    assert lows[2] == story.after_recovery.ours[name].low
    assert all(look[name].uncommitted[0].offset == low for look, low in zip(looks, lows, strict=True))


def test_a_broker_recovers_what_kafkalog_had_appended_when_it_was_killed(story: Story) -> None:
    values = [int(value or b"-1") for value in story.values_after_kill]
    assert values == list(range(len(values)))
    assert len(values) >= story.appended_when_killed > 0
    assert any("since no clean shutdown file was found" in line for line in story.said_after_kill)
