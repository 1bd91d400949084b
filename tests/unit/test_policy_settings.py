"""The correction policy as a setting: from a variable or a file to the table, and what is said of a wrong one."""

import re
import tomllib
from pathlib import Path

import pytest

from gateway.policy_settings import policy_of, policy_rows
from gateway.settings import SettingsInvalid, read_settings
from grading.correct import DEFAULT_POLICY, Cause, Strategy
from grading.grade import Verdict

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
GAP = (Verdict.PARTIAL, Cause.GAP)
EMPTY = (Verdict.INSUFFICIENT, Cause.EMPTY)


def test_without_a_setting_the_policy_is_the_default_one() -> None:
    assert read_settings().correction_policy() == DEFAULT_POLICY
    assert policy_of(policy_rows("")) == DEFAULT_POLICY


@pytest.mark.parametrize(
    "written",
    [
        "partial.gap=rewrite,broaden; insufficient.empty=",
        " partial.gap = rewrite , broaden ;insufficient.empty = ; ",
        '{"partial": {"gap": ["rewrite", "broaden"]}, "insufficient": {"empty": []}}',
    ],
)
def test_rows_that_are_set_take_the_place_of_the_default_s(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("GATEWAY_POLICY", written)
    policy = read_settings().correction_policy()
    assert policy == {**DEFAULT_POLICY, GAP: (Strategy.REWRITE, Strategy.BROADEN), EMPTY: ()}


def test_the_file_says_it_in_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('conflicts = "refuse"\n[policy.partial]\ngap = ["next_source"]\n')
    monkeypatch.setenv("GATEWAY_CONFIG", str(file))
    settings = read_settings()
    assert settings.correction_policy() == {**DEFAULT_POLICY, GAP: (Strategy.NEXT_SOURCE,)}
    assert settings.limits().conflicts == "refuse"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("sufficient.gap=broaden", "there is no row sufficient.gap; the rows are insufficient.conflict, "),
        ("partial.empty=broaden", "there is no row partial.empty; the rows are "),
        ("partial.gap=retry", "partial.gap has 'retry'; the strategies are gap_query, rewrite, "),
        ("partial.gap=broaden,broaden", "partial.gap names a strategy twice"),
        ("partial.gap=broaden;partial.gap=rewrite", "partial.gap stands there twice"),
        ("gap=broaden", "'gap=broaden' must be verdict.cause=strategy,strategy"),
        ("partial.gap", "'partial.gap' must be verdict.cause=strategy,strategy"),
        ('{"partial": ', "is no JSON: "),
        ('{"partial": ["gap"]}', "partial must be a table of causes"),
        ('{"partial": {"gap": 3}}', "partial.gap must be a list of strategies"),
        ('{"partial": {"gap": [3]}}', "partial.gap has '3'; the strategies are "),
    ],
)
def test_what_is_wrong_is_named_with_what_could_stand_there(
    monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    monkeypatch.setenv("GATEWAY_POLICY", written)
    with pytest.raises(SettingsInvalid, match=r"^GATEWAY_POLICY: " + re.escape(said)):
        read_settings()


def test_the_page_shows_the_policy_that_is_the_default() -> None:
    shown = next(
        block for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "[policy." in block
    )
    rows = policy_rows(tomllib.loads(shown)["policy"])
    assert {(verdict, cause): names for verdict, causes in rows.items() for cause, names in causes.items()} == {
        (verdict.value, cause.value): tuple(map(str, names)) for (verdict, cause), names in DEFAULT_POLICY.items()
    }


@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid", "hops"])
def test_the_first_search_can_be_fixed(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    assert read_settings().router()("ORA-00942").mode == "lexical"
    monkeypatch.setenv("GATEWAY_FIRST_SEARCH", mode)
    assert read_settings().router()("ORA-00942").mode == mode
