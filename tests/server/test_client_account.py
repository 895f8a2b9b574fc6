"""What the server is, what the key may do, and whose it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from server import errors
from server.client import HISTORY_SCOPES, NORMAL_SCOPES, OPTIONAL_SCOPES, Statistics, TrashPolicy, Version
from tests.server.client_support import BOTH, NORMAL, checksum, world


@BOTH
def test_version_and_trash_policy_are_read(version: str) -> None:
    with world(version) as w:
        assert w.server.version() >= Version(2, 7, 5)
        assert str(w.server.version()) == version
        assert w.server.trash_policy() == TrashPolicy(True, 30)
        w.sim.trash_days = 3
        assert w.server.trash_policy() == TrashPolicy(True, 3)
        w.sim.trash_enabled = False
        assert not w.server.trash_policy().enabled


def test_a_server_that_does_not_say_whether_it_has_a_trash_is_not_believed_to_have_one() -> None:
    with world() as w:
        w.sim.faults.add("GET", "/api/server/features", status=200, body={"search": True})
        with pytest.raises(errors.AnswerMalformed):
            w.server.trash_policy()


def test_clock_skew_is_this_clock_minus_the_servers() -> None:
    with world() as w:
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        w.sim.clock = lambda: noon
        assert w.server.clock_skew(noon) == 0
        assert w.server.clock_skew(noon + timedelta(hours=25)) == 25 * 3600
        assert w.server.clock_skew(noon - timedelta(minutes=1)) == -60


@BOTH
def test_scopes_are_read_and_the_missing_ones_named(version: str) -> None:
    with world(version, NORMAL) as w:
        assert w.server.key_scopes() == NORMAL_SCOPES
        assert w.server.missing_scopes(NORMAL_SCOPES) == []
        assert w.server.missing_scopes(NORMAL_SCOPES | HISTORY_SCOPES | {"user.read"}) == ["tag.read", "user.read"]
    with world(version) as w:
        assert w.server.missing_scopes([*NORMAL_SCOPES, *HISTORY_SCOPES, *OPTIONAL_SCOPES]) == []


@BOTH
def test_statistics_are_the_servers_count_or_none_without_the_scope(version: str) -> None:
    with world(version) as w:
        w.add("a", 3)
        assert w.server.statistics() == Statistics(3, 0, 3)
    with world(version, NORMAL) as w:
        assert w.server.statistics() is None


@BOTH
def test_identity_comes_from_the_server(version: str) -> None:
    with world(version) as w:
        identity = w.server.identity()
        assert (identity.user_id, identity.email, identity.name) == (w.user, "ann@example.com", "Ann")


def test_a_user_id_that_is_no_uuid_is_refused_since_it_names_a_folder() -> None:
    for bad in ("../../etc", "", None, 5, "x" * 36):
        with world() as w:
            w.sim.faults.add("GET", "/api/users/me", status=200, body={"id": bad, "email": "a", "name": "b"})
            with pytest.raises(errors.AnswerMalformed):
                w.server.identity()


@BOTH
@pytest.mark.parametrize("visibility", ["hidden", "archive"])
def test_identity_without_user_read_comes_from_the_sole_owner_of_what_is_listed(version: str, visibility: str) -> None:
    with world(version, NORMAL) as w:
        w.add("shown")
        w.add("other", visibility=visibility)
        identity = w.server.identity()
        assert (identity.user_id, identity.email, identity.name) == (w.user, None, None)


@BOTH
def test_a_timeline_alone_proves_no_identity_without_a_scope_that_does(version: str) -> None:
    for scope in ("asset.statistics", "asset.upload"):
        with world(version, NORMAL | {scope}) as w:
            w.add("shown")
            assert w.server.identity().user_id == w.user
    with world(version, NORMAL) as w:
        w.add("shown")
        with pytest.raises(errors.MissingScope) as caught:
            w.server.identity()
        assert caught.value.scope == "user.read"


@BOTH
@pytest.mark.parametrize("scope", ["asset.statistics", "asset.upload"])
def test_a_partner_is_never_taken_for_the_user(version: str, scope: str) -> None:
    """The user has nothing; all that the search shows is the partner's."""
    with world(version, NORMAL | {scope}) as w:
        partner = w.sim.add_user("Bob", "bob@example.com")
        w.sim.add_asset(partner, checksum=checksum("bob"), file_name="bob.jpg")
        w.sim.share_with_partner(partner, w.user)
        with pytest.raises(errors.MissingScope, match=r"user\.read"):
            w.server.identity()


@BOTH
def test_two_owners_in_sight_settle_no_identity(version: str) -> None:
    with world(version, NORMAL) as w:
        partner = w.sim.add_user("Bob", "bob@example.com")
        w.sim.add_asset(partner, checksum=checksum("bob"), file_name="bob.jpg")
        w.sim.share_with_partner(partner, w.user)
        w.add("mine", visibility="hidden")
        with pytest.raises(errors.MissingScope, match=r"user\.read"):
            w.server.identity()
