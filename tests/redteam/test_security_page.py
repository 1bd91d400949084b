"""docs/security.md against the tests: what it says is held has a test, and the figures are those of the data."""

import re
from pathlib import Path

from tests.support.redteam import POISONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()


def names_of_tests() -> set[str]:
    text = "\n".join(map(Path.read_text, ROOT.glob("tests/**/*.py")))
    return set(re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE))


def test_every_test_and_file_that_the_page_names_exists() -> None:
    tests = names_of_tests()
    named = re.findall(r"`(test_\w+)`", PAGE)
    assert len(set(named)) >= 10
    assert set(named) <= tests
    for row in re.findall(r"^\|.*\|$", PAGE, re.MULTILINE)[2:]:
        for path in re.findall(r"[\w/]+\.(?:py|js)\b", row.split("|")[2]):
            assert (ROOT / path).is_file(), path


def test_every_test_that_the_table_of_faults_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "operations.md").read_text()))
    assert len(named) >= 20
    assert named <= names_of_tests()


def test_figures_are_those_of_the_data() -> None:
    assert re.findall(r"(\d+) passages", PAGE) == [str(len(POISONS))] * 2
    assert f"Of {4 * len(POISONS)} sets" in PAGE
