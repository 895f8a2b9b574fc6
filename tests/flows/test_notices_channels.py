"""Where notices go: apprise over a real socket, a program for the desktop, and `notify-test`; and that secrets stay."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.commands import run
from engine.errors import UsageError
from flows import direct
from flows.channels import Notice, NotTaken, own_channels
from flows.pipeline import ReconcileRequest
from flows.watching import reconciled
from state.credentials import notify_urls
from tests.e2e.test_only_the_server import WITNESS, environment, host_and_port, is_here, witnessed
from tests.flows.noticing import SECRET, Service, desktop, nobody, service
from tests.world import World, small_world

NOTICE = Notice("rail", "threshold", "A title", '-a "body" with $(touch x) and <b>')


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    nobody(monkeypatch)
    monkeypatch.chdir(tmp_path)
    with service() as it:
        monkeypatch.setenv("NOTIFY_URLS", it.url)
        yield it


@pytest.fixture
def trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: Service) -> Iterator[World]:
    """A world whose next run a rail stops."""
    with small_world(tmp_path, monkeypatch) as world:
        world.all_backed_up("IMG_{}.JPG", 10)
        world.reconcile()
        world.remove(*(f"IMG_{number}.JPG" for number in range(10)))
        yield world


def one_run() -> None:
    assert reconciled(direct.call, ReconcileRequest()).outcome == "aborted"


def test_an_address_that_does_not_take_it_is_tried_again_and_the_others_are_not_told_twice(
    trouble: World, there: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shown = desktop(tmp_path, monkeypatch)
    there.status = 500
    one_run()
    assert "address 1 of NOTIFY_URLS (json): it was not taken there" in caplog.text
    there.status = 200
    one_run()
    one_run()
    assert there.titles == ["A safety rail stopped a run"] and len(there.asked) == 2
    assert len(shown.calls) == 1


def test_the_secret_of_an_address_and_our_key_are_nowhere(
    trouble: World, there: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = desktop(tmp_path, monkeypatch)
    monkeypatch.setenv("NOTIFY_URLS", f"{there.url} nosuch://{SECRET} json://127.0.0.1:1/{SECRET}")
    one_run()
    assert there.titles == ["A safety rail stopped a run"]
    assert "address 2 of NOTIFY_URLS (nosuch): apprise does not understand this address" in caplog.text
    assert "address 3 of NOTIFY_URLS (json): it was not taken there" in caplog.text
    assert SECRET not in caplog.text
    (key,) = trouble.simulator.keys
    assert [call[-1] for call in shown.calls] == ["secrets="], "no credential is in its environment"
    assert key not in str(there.headers) + str(there.taken) + str(shown.calls)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("named", [False, True])
def test_invariant_13_nobody_but_the_server_is_contacted_unless_named(
    trouble: World, there: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    if not named:
        monkeypatch.delenv("NOTIFY_URLS")
    code, reports = tmp_path / "witness", tmp_path / "reports"
    for folder in (code, reports):
        folder.mkdir()
    (code / "sitecustomize.py").write_text(WITNESS)
    program = f"""
from datetime import datetime
from flows import direct
from flows.pipeline import ReconcileRequest
from flows.watching import reconciled
from tasks.clock import clock_of

with clock_of(lambda: datetime.fromisoformat("{trouble.now.isoformat()}")):
    print(reconciled(direct.call, ReconcileRequest()).outcome)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(reports), capture_output=True, text=True, check=False
    )
    assert done.stdout == "aborted\n", done.stderr
    events = witnessed(reports)
    assert len([words for words in events if words[0] == "started"]) == (2 if named else 1)
    addresses = {(words[0], *found) for words in events if words[0] != "started" and (found := host_and_port(words))}
    assert {host for _, host, _ in addresses if not is_here(host)} == set()
    reached = {port for event, _, port in addresses if event == "socket.connect"}
    assert reached == {int(trouble.url.rsplit(":", 1)[1]), *([there.port] if named else [])}
    assert len(there.taken) == named


def test_a_service_gets_title_and_body_as_they_are_and_no_redirect_is_followed(there: Service, tmp_path: Path) -> None:
    (channel,) = own_channels({"NOTIFY_URLS": there.url}, tmp_path)
    channel.send(NOTICE)
    (body,) = there.taken
    assert (body["title"], body["message"]) == (NOTICE.title, NOTICE.body)
    with service() as elsewhere:
        there.status, there.location = 307, f"http://127.0.0.1:{elsewhere.port}/"
        with pytest.raises(NotTaken):
            channel.send(NOTICE)
        assert elsewhere.asked == []


def test_no_service_is_pointed_to_a_picture_on_another_host(there: Service, tmp_path: Path) -> None:
    (channel,) = own_channels({"NOTIFY_URLS": f"mmost://127.0.0.1:{there.port}/{SECRET}?image=yes"}, tmp_path)
    channel.send(NOTICE)
    (body,) = there.taken
    assert NOTICE.body in body["text"] and "http" not in json.dumps(body)


def test_the_addresses_come_from_dotenv_where_the_environment_has_none_and_show_nothing(tmp_path: Path) -> None:
    assert notify_urls({}, tmp_path) == () and own_channels({"PATH": ""}, tmp_path) == []
    (tmp_path / ".env").write_text(f'SERVER_URL=x\nNOTIFY_URLS="a://{SECRET}\n  b://{SECRET}#1"\n')
    found = notify_urls({"NOTIFY_URLS": " "}, tmp_path)
    assert [url.get_secret_value() for url in found] == [f"a://{SECRET}", f"b://{SECRET}#1"]
    assert [url.get_secret_value() for url in notify_urls({"NOTIFY_URLS": "c://"}, tmp_path)] == ["c://"]
    channels = own_channels({"PATH": ""}, tmp_path)
    assert len(channels) == 2 and SECRET not in repr(found) + repr(channels)
    (tmp_path / ".env").write_text(f'NOTIFY_URLS="{SECRET}\n')
    with pytest.raises(UsageError) as error:
        notify_urls({}, tmp_path)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("name", ["notify-send", "osascript"])
def test_a_desktop_is_told_by_arguments_and_no_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    nobody(monkeypatch)
    monkeypatch.chdir(tmp_path)
    shown = desktop(tmp_path, monkeypatch, name)
    (channel,) = own_channels(os.environ, tmp_path)
    channel.send(NOTICE)
    (call,) = shown.calls
    assert call[-3:] == [NOTICE.title, NOTICE.body, "secrets="]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("missing", ["DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "PATH"])
def test_without_a_session_there_is_no_desktop_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    nobody(monkeypatch)
    desktop(tmp_path, monkeypatch)
    assert own_channels({**os.environ, missing: ""}, tmp_path) == []


def test_notify_test_says_who_took_it_and_shows_no_address(
    there: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = desktop(tmp_path, monkeypatch, code=1)
    assert run(["notify-test"]) == 5
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "not taken  the desktop: notify-send ended with code 1", "taken      address 1 of NOTIFY_URLS (json)",
    ]  # fmt: skip
    assert len(shown.calls) == 1 and there.titles == ["Test of deletion-sync"]
    assert SECRET not in said.out + said.err
    monkeypatch.delenv("NOTIFY_URLS")
    assert run(["notify-test"]) == 1
    monkeypatch.delenv("DISPLAY")
    assert run(["notify-test"]) == 2
    assert "NOTIFY_URLS" in capsys.readouterr().err
