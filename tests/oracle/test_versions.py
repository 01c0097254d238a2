"""The table of what each version of Kafka takes (`version_checks`), against two of them: classes, and a broker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafkalog.fsck import Options, verify_path
from kafkalog.fsck.version_checks import VERSIONS
from tests.helpers.golden import unpacked
from tests.oracle import java
from tests.oracle.broker import Broker, BrokerFailed

pytestmark = pytest.mark.oracle

SOURCE = Path(__file__).with_name("Settings.java")
POMS = {"3.9": java.POM.with_name("pom_3.9.xml"), "4.2": java.POM}


@pytest.fixture(scope="module")
def taken() -> dict[str, Any]:
    """Return what each version says of itself."""
    found = {}
    try:
        for version, pom in POMS.items():
            classpath = f"{java.classes(SOURCE)}{os.pathsep}{java.jars(pom)}/*"
            command = [java.java(), "-cp", classpath, SOURCE.stem]
            answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
            found[version] = json.loads(answer.stdout)
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
    return found


@pytest.mark.parametrize("version", POMS)
def test_the_settings_that_a_version_does_not_have_are_in_the_table(version: str, taken: dict[str, Any]) -> None:
    all_settings = {name for each in taken.values() for name in each["settings"]}
    assert all_settings - taken[version]["settings"].keys() == VERSIONS[version].unknown


@pytest.mark.parametrize("version", POMS)
def test_the_values_that_only_this_version_refuses_are_in_the_table(version: str, taken: dict[str, Any]) -> None:
    bounds = {name: least for name, least in taken[version]["settings"].items() if least is not None}
    others = [each["settings"] for each in taken.values()]
    stricter = {
        name: least
        for name, least in bounds.items()
        if any(name in each and (each[name] is None or each[name] < least) for each in others)
    }
    assert stricter == VERSIONS[version].least


@pytest.mark.parametrize("version", POMS)
def test_the_levels_of_features_are_in_the_table(version: str, taken: dict[str, Any]) -> None:
    levels = {
        name: tuple(map(int, re.findall(r"\d+", text)))
        for name, text in taken[version]["features"].items()
        if name != "kraft.version"  # no record has it
    }
    kept = {name: (each[0], each[-1]) for name, each in levels.items() if each[-1]}
    assert kept == VERSIONS[version].features


@pytest.mark.broker
def test_a_broker_does_not_start_with_a_setting_of_a_topic_that_it_refuses(tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(unpacked() / "kafka-3.9" / "data", data)
    found = list(verify_path(data, Options(only=frozenset({"layout"}), for_version="4.2")))
    assert {(each.code, str(each.consequence)) for each in found} == {("setting-refused", "no-start")}
    refused = f"Invalid value {found[0].found} for configuration segment.bytes: Value must be {found[0].expected}"
    try:
        with Broker(tmp_path, pom=POMS["4.2"]) as broker, pytest.raises(BrokerFailed, match=refused):
            broker.start()
    except java.JavaUnavailable as error:
        pytest.skip(f"Kafka cannot be asked: {error}")
