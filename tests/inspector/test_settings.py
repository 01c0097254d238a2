"""The config file is read as far as it can be; a mistake in it is named and left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkalog.inspector import config as settings
from kafkalog.inspector import keys
from kafkalog.inspector.config import Settings


def written(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "inspector.toml"
    path.write_text(text, encoding="utf-8")
    return settings.load(path)


def test_everything_can_be_set(tmp_path: Path) -> None:
    found = written(tmp_path, 'theme = "nord"\ntimezone = "local"\n[keymap]\nfollow = "F,f5"\nquit = "ctrl+x"\n')
    assert found == Settings("nord", "local", {"follow": "F,f5", "quit": "ctrl+x"})


def test_no_file_at_the_default_place_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings.default_path() == tmp_path / "kafkalog" / "inspector.toml"
    assert settings.load() == Settings()


def test_without_xdg_config_home_the_file_is_below_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings.default_path() == tmp_path / ".config" / "kafkalog" / "inspector.toml"


def test_a_missing_config_file_is_a_mistake_where_it_was_asked_for(tmp_path: Path) -> None:
    assert settings.load(tmp_path / "none").mistakes == (f"{tmp_path / 'none'}: no such file",)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("theme = 3", "theme: expected a text, found 3"),
        ('timezone = "CET"', "timezone: expected utc, local, relative, epoch, found 'CET'"),
        ("timezone = ['utc']", "timezone: expected"),
        ("colour = 1", "colour: no such setting"),
        ("keymap = 1", "keymap: expected a table, found 1"),
        ('[keymap]\nfly = "f"', "keymap.fly: no such action"),
        ("[keymap]\nfollow = 1", "keymap.follow: expected keys with commas between, found 1"),
        ('[keymap]\nfollow = ""', "keymap.follow: expected keys"),
        ('[keymap]\nfollow = "F, no key"', "keymap.follow: expected keys"),
        ('[keymap]\ngo_to = "notakey"', "keymap.go_to: expected keys with commas between, found 'notakey'"),
        ('[keymap]\nfollow = "ctrl+ctrl+notakey"', "keymap.follow: expected keys"),
        ('[keymap]\nquit = "\\u001b"', "keymap.quit: expected keys"),
        ('"\\u001b[31mkey" = 1', "\\x1b[31mkey: no such setting"),
        ("theme = ", "inspector.toml"),
        ("\x00", "inspector.toml"),
    ],
)
def test_a_mistake_is_named_and_the_rest_holds(tmp_path: Path, text: str, named: str) -> None:
    found = written(tmp_path, text)
    assert len(found.mistakes) == 1
    assert named in found.mistakes[0]
    assert found.time_zone == "utc"
    assert found.keymap == {}


@pytest.mark.parametrize(("first", "second"), [("follow", "go_to"), ("deep", "run"), ("back", "verify_all")])
def test_a_key_that_two_actions_in_one_place_are_given_is_the_second_ones(
    tmp_path: Path, first: str, second: str
) -> None:
    found = written(tmp_path, f'[keymap]\n{first} = "f5,x"\n{second} = "f5"\n')
    assert (len(found.mistakes), found.keymap) == (1, {second: "f5"})
    assert found.mistakes[0].endswith(f"keymap.{first}: f5 is given to {second} too")


def test_a_key_may_have_an_action_in_each_place(tmp_path: Path) -> None:
    assert written(tmp_path, '[keymap]\nfollow = "f5"\nverify_all = "f5"\n').mistakes == ()


def test_help_leaves_a_key_out_that_another_action_has_been_given() -> None:
    lines = keys.help_lines({"follow": "c"})
    assert ("", "y", "copy what is under the cursor, or the marked rows") in lines


def test_a_directory_and_bytes_that_are_no_text_are_mistakes(tmp_path: Path) -> None:
    assert "directory" in settings.load(tmp_path).mistakes[0]
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert len(settings.load(tmp_path / "bytes").mistakes) == 1


def test_the_keys_that_actions_have_can_be_given_to_others(tmp_path: Path) -> None:
    for key in {key for action in keys.ACTIONS for key in action.keys.split(",")} | {"?", "ctrl+@", "shift+f5", "é"}:
        found = written(tmp_path, f'[keymap]\nfollow = "{key}"')
        assert (found.keymap, found.mistakes) == ({"follow": key}, ())


def test_no_two_actions_of_a_scope_have_a_key_in_common() -> None:
    for scope in keys.SCOPES:
        given = [key for action in keys.ACTIONS if action.scope == scope for key in action.keys.split(",")]
        assert len(given) == len(set(given))


def test_actions_have_names_of_their_own_and_help_has_all_of_them() -> None:
    assert len(keys.NAMES) == len(keys.ACTIONS)
    lines = keys.help_lines({"follow": "f5"})
    assert ("", "f5", "follow the end of the log; scrolling up pauses") in lines
    assert len([line for line in lines if not line[0]]) == len(keys.ACTIONS)


def test_help_begins_with_what_is_possible_now_and_the_view_itself() -> None:
    titles = [title for title, _, _ in keys.help_lines({}, {"back", "cursor_up", "next_view"}) if title]
    assert titles[:4] == ["In a record", "In tables", "On every screen", "In the segment map"]
    assert len(titles) == len(keys.SCOPES)


def test_pipes_devices_and_huge_files_are_no_config_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(1 << 40)
    mistakes = {
        tmp_path / "fifo": "it is no regular file",
        Path("/dev/zero"): "it is no regular file",
        tmp_path: "it is no regular file",
        tmp_path / "huge.toml": "it is larger than 1,048,576 bytes, which no config file is",
        tmp_path / "fifo" / "x": "Not a directory",
    }
    for path, mistake in mistakes.items():
        assert settings.load(path).mistakes == (f"{path}: {mistake}",)


def test_the_null_device_is_an_empty_config_file() -> None:
    assert settings.load(Path(os.devnull)) == Settings()
