"""config: each setting, its value, and where the value comes from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.edges.conftest import Cli


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_setting_is_shown_with_its_origin(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "stepwell.toml").write_text('# ours\nlease = "30s"\n', encoding="utf-8")
    monkeypatch.setenv("STEPWELL_RUNS_MAX", "50")

    said = cli("config")

    assert (said.code, said.err) == (0, "")
    assert [line.split("\t") for line in said.out.splitlines()] == [
        ["KEY", "VALUE", "ORIGIN"],
        ["db", "sqlite:///stepwell.db", "default"],
        ["app", "none", "default"],
        ["tokens", "none", "default"],
        ["mode", "live", "default"],
        ["lease", "30s", "stepwell.toml:2"],
        ["runs_max", "50", "STEPWELL_RUNS_MAX"],
        ["cache_max", "1000", "default"],
        ["hold_max", "1s", "default"],
        ["claim_ahead", "500ms", "default"],
        ["sweep_every", "2s", "default"],
        ["stalls_max", "5", "default"],
        ["entries_max", "50000", "default"],
        ["signals_max", "2000", "default"],
        ["threads_max", "32", "default"],
        ["name", "worker", "default"],
    ]


def test_one_setting_is_shown_as_a_line_or_as_json(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_LEASE", "20s")

    assert cli("config", "lease").out == "20s  (STEPWELL_LEASE)\n"
    assert cli("config", "lease", "-o", "json").json == {
        "schema": "stepwell.setting/1",
        "key": "lease",
        "value": "20s",
        "origin": "environment",
        "where": "STEPWELL_LEASE",
    }
    assert cli("config", "lease", "--fields", "value", "--no-header").out == "20s\n"
    settings = cli("config", "-o", "json").json
    assert (settings["schema"], len(settings["settings"])) == ("stepwell.setting-list/1", 15)


def test_a_setting_that_does_not_exist_is_an_error_that_names_the_nearest(cli: Cli) -> None:
    said = cli("config", "leese", "-o", "json")

    assert (said.code, said.error["message"]) == (4, "there is no setting 'leese'. Did you mean 'lease'?")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:hunter2@db:5432/shop", "postgresql://ann:***@db:5432/shop"),
        ("postgresql://ann@db/shop?password=hunter2&schema=a", "postgresql://ann@db/shop?password=***&schema=a"),
        ("postgresql:host=db password=hunter2", "postgresql:***"),
        ("postgresql://a:hunter2@x:1,y:2/shop", "postgresql://a:***@x:1,y:2/shop"),
        ("sqlite:///shop.db?shared=1", "sqlite:///shop.db?shared=1"),
    ],
)
def test_passwords_are_masked(cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str, shown: str) -> None:
    monkeypatch.setenv("STEPWELL_DB", url)

    assert cli("config", "db", "-o", "json").json["value"] == shown
    assert "hunter2" not in cli("config").out


def test_an_app_shows_its_parts_and_none_of_its_keys(cli: Cli, folder: Path) -> None:
    (folder / "vault.py").write_text(
        "from stepwell import App\nfrom stepwell.codec.encryption import Encrypted, Keys\n"
        "from stepwell.codec.json_codec import JsonCodec\nfrom stepwell.worker.metrics import Metrics\n"
        'app = App(codec=Encrypted(JsonCodec(), keys=Keys("k1", {"k1": b"k" * 32})), hooks=[Metrics()])\n',
        encoding="utf-8",
    )

    parts = {item["key"]: item["value"] for item in cli("config", "--app", "vault.py", "-o", "json").json["settings"]}

    assert (parts["codec"], parts["hooks"], parts["workflows"]) == ("Encrypted", ["Metrics"], [])
    assert "kkkk" not in cli("config", "--app", "vault.py").out


def test_an_unknown_name_in_the_environment_or_the_file_stops_a_command(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWELL_LEESE", "1s")
    assert "Did you mean STEPWELL_LEASE?" in cli("ls", "-o", "json").error["message"]
    monkeypatch.delenv("STEPWELL_LEESE")
    (folder / "stepwell.toml").write_text("leese = 1\n", encoding="utf-8")

    said = cli("ls", "-o", "json")

    assert (said.code, said.error["where"]) == (2, "stepwell.toml:1")
    assert "Did you mean lease?" in said.error["message"]


def test_help_reads_no_file(folder: Path) -> None:
    (folder / "stepwell.toml").write_text("this is not TOML", encoding="utf-8")
    code = "import sys; from stepwell.cli.main import main; main(['--help']); print('tomllib' in sys.modules)"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)

    assert said.stdout.splitlines()[-1] == "False"
