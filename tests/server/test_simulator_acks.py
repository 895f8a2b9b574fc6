"""The simulator's change stream: how acks move the position, and when it starts afresh."""

from __future__ import annotations

import pytest

from tests.server.simulator_devices import Device, device, kinds, shown
from tests.server.simulator_support import VERSIONS

pytestmark = pytest.mark.parametrize("version", VERSIONS)


def test_without_an_ack_the_same_lines_come_again(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    first, again = phone.stream(), phone.stream()
    assert first[:-1] == again[:-1]
    assert first[-1] != again[-1]
    assert phone.acks() == {}


def test_an_older_ack_moves_the_position_back(phone: Device, version: str) -> None:
    ids = [phone.house.add(f"{number}.jpg") for number in range(3)]
    lines = phone.stream()
    phone.acknowledge(lines[2])
    assert shown(phone.stream()) == []
    phone.acknowledge(lines[0])
    assert shown(phone.stream()) == ids[1:]


def test_of_several_acks_of_a_type_the_last_one_counts(phone: Device, version: str) -> None:
    ids = [phone.house.add(f"{number}.jpg") for number in range(3)]
    lines = phone.stream()
    phone.acknowledge(lines[2], lines[0])
    assert shown(phone.stream()) == ids[1:]


def test_acks_are_per_entity_type(phone: Device, version: str) -> None:
    one = phone.house
    one.add("kept.jpg")
    one.delete(one.add("gone.jpg"), force=True)
    deletion, upsert, complete = phone.stream()
    phone.acknowledge(upsert, complete)
    assert kinds(phone.stream()) == ["AssetDeleteV1", "SyncCompleteV1"]
    phone.acknowledge(deletion)
    assert kinds(phone.stream()) == ["SyncCompleteV1"]
    assert list(phone.acks()) == [phone.entity, "SyncCompleteV1", "AssetDeleteV1"]


def test_acks_are_per_session(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    with device(phone.house, version) as tablet:
        assert len(tablet.stream()) == 2
    assert len(phone.stream()) == 1


def test_deleting_acks_replays_all_or_one_type(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.client.request("DELETE", "/api/sync/ack", json={"types": [phone.entity]})
    assert list(phone.acks()) == ["SyncCompleteV1"]
    assert len(phone.stream()) == 2
    phone.client.request("DELETE", "/api/sync/ack", json={})
    assert phone.acks() == {}


def test_an_empty_list_of_acks_is_500_and_more_than_1000_are_400(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    ack = phone.stream()[0]["ack"]
    statuses = [phone.client.post("/api/sync/ack", json={"acks": [ack] * n}).status_code for n in (0, 1, 1000, 1001)]
    assert statuses == [500, 204, 204, 400]


@pytest.mark.parametrize("ack", ["", "|", "xx", "Foo|01a1fb7c-cf40-736b-a1fd-0e39aaa9b4e2"])
def test_an_ack_of_an_unknown_type_is_400(phone: Device, version: str, ack: str) -> None:
    answer = phone.client.post("/api/sync/ack", json={"acks": [ack]})
    assert answer.status_code == 400
    assert answer.json()["message"] == f"Invalid ack type: {ack.partition('|')[0]}"


@pytest.mark.parametrize("broken", ["", "|", "|notauuid"])
def test_a_malformed_ack_is_accepted_and_breaks_every_stream_until_it_is_deleted(
    phone: Device, version: str, broken: str
) -> None:
    answer = phone.client.post("/api/sync/ack", json={"acks": [phone.entity + broken]})
    assert answer.status_code == 204
    for _ in range(2):
        failed = phone.ask()
        assert (failed.status_code, failed.json()["message"]) == (500, "Internal server error")
    phone.client.request("DELETE", "/api/sync/ack", json={})
    assert kinds(phone.stream()) == ["SyncCompleteV1"]


def test_a_pending_reset_is_the_only_line_until_it_is_acknowledged(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.house.sim.demand_sync_reset(phone.house.user_id)
    for _ in range(2):
        assert phone.stream() == [{"type": "SyncResetV1", "data": {}, "ack": "SyncResetV1|reset"}]
    assert len(phone.acks()) == 2
    phone.acknowledge(*phone.stream())
    assert phone.acks() == {}
    assert len(phone.stream()) == 2


def test_a_pending_reset_is_cleared_by_asking_for_a_reset(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.house.sim.demand_sync_reset(phone.house.user_id)
    assert len(phone.stream(reset=True)) == 2
    assert phone.acks() == {}
    assert len(phone.stream()) == 2


def test_a_complete_acknowledged_over_30_days_ago_makes_a_reset(phone: Device, version: str) -> None:
    phone.house.add("a.jpg")
    phone.acknowledge(*phone.stream())
    phone.house.clock.forward(days=30)
    assert kinds(phone.stream()) == ["SyncCompleteV1"]
    phone.house.clock.forward(minutes=1)
    assert kinds(phone.stream()) == ["SyncResetV1"]
    phone.acknowledge(*phone.stream())
    assert len(phone.stream()) == 2


def test_a_deletion_older_than_31_days_is_no_longer_in_the_stream(phone: Device, version: str) -> None:
    one = phone.house
    one.delete(one.add("gone.jpg"), force=True)
    one.clock.forward(days=31)
    assert kinds(phone.stream()) == ["AssetDeleteV1", "SyncCompleteV1"]
    one.clock.forward(seconds=1)
    assert kinds(phone.stream()) == ["SyncCompleteV1"]
