"""Files that commands write: what cannot be written is said before the work, and what can be is left as it was."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli import cli
from gateway.destination import CannotBeWritten, require_writable, write


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gone/x.png", "there is no folder"),
        (".", "Is a directory"),
        ("file/x.png", "Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_named_with_its_reason(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").write_text("x")
    for attempt in (require_writable, lambda file: write(file, "x")):
        with pytest.raises(CannotBeWritten) as caught:
            attempt(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name} cannot be written: ")
        assert why in str(caught.value)


def test_what_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    old, link = tmp_path / "old", tmp_path / "link"
    old.write_text("kept")
    link.symlink_to(tmp_path / "not there yet")
    require_writable(None, old, link, tmp_path / "new", Path("/dev/null"))
    assert old.read_text() == "kept"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "old"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("eval", "sufficiency", "labels.jsonl", "--cache"),
        ("eval", "sufficiency", "labels.jsonl", "--picture"),
        ("eval", "grounding", "labels.jsonl", "--fit"),
        ("eval", "retrieval", "folder", "--picture"),
        ("eval", "answers", "folder", "--picture"),
        ("calibrate", "labels.jsonl", "--cache"),
        ("calibrate", "labels.jsonl", "--out"),
        ("calibrate", "labels.jsonl", "--picture"),
        ("report", "--gateway", "http://127.0.0.1:9", "--picture"),
        ("gaps", "export", "--out"),
        ("bench", "--json"),
        ("bench", "--picture"),
    ],
    ids=" ".join,
)
def test_a_command_says_so_before_it_does_anything_else(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / "gone" / "x"
    found = CliRunner().invoke(cli, [*arguments, str(file)])
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr == f"gateway: {file} cannot be written: there is no folder {file.parent}\n"
