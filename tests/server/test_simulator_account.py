"""The simulator: credentials, scopes, sessions, and what the server says of itself."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from tests.server.simulator_support import START, VERSIONS, house, patient

pytestmark = pytest.mark.parametrize("version", VERSIONS)


def test_a_missing_scope_is_403_and_names_the_permission(version: str) -> None:
    with house(version) as one:
        key = one.sim.add_key(one.user_id, ["asset.read"])
        answer = one.client.get("/api/tags", headers={"x-api-key": key})
        assert (answer.status_code, answer.json()["message"]) == (403, "Missing required permission: tag.read")


def test_an_unknown_key_is_401_and_so_is_none(version: str) -> None:
    with house(version) as one, httpx.Client(**patient(one.base_url)) as anyone:
        assert anyone.get("/api/users/me").status_code == 401
        assert anyone.get("/api/users/me", headers={"x-api-key": "no"}).status_code == 401
        assert anyone.get("/api/server/features").status_code == 200


def test_a_bad_session_token_beside_a_good_key_is_401(version: str) -> None:
    with house(version) as one:
        answer = one.client.get("/api/users/me", headers={"Authorization": "Bearer no"})
        assert (answer.status_code, answer.json()["message"]) == (401, "Invalid user token")


def test_the_key_tells_its_own_scopes_without_any_scope(version: str) -> None:
    with house(version) as one:
        key = one.sim.add_key(one.user_id, ["tag.asset"], "narrow")
        answer = one.client.get("/api/api-keys/me", headers={"x-api-key": key})
        assert answer.json()["permissions"] == ["tag.asset"]
        assert key not in answer.text


def test_errors_have_the_envelope_of_the_version(version: str) -> None:
    with house(version) as one:
        answer = one.client.get("/api/nowhere")
        if version == "3.1.0":
            assert answer.json() == {"message": "Cannot GET /api/nowhere"}
            assert len(answer.headers["x-correlation-id"]) == 8
        else:
            own_id = answer.headers["x-immich-cid"]
            body = {"message": "Cannot GET /api/nowhere", "error": "Not Found", "statusCode": 404}
            assert answer.json() == body | {"correlationId": own_id}


def test_a_login_gives_a_token_that_logout_ends(version: str) -> None:
    with house(version) as one, httpx.Client(**patient(one.base_url)) as device:
        answer = device.post("/api/auth/login", json={"email": "Ann@example.com", "password": "secret"})
        assert answer.status_code == 201
        assert answer.json()["userId"] == one.user_id
        device.cookies.clear()
        bearer = {"Authorization": f"Bearer {answer.json()['accessToken']}"}
        assert device.get("/api/users/me", headers=bearer).json()["id"] == one.user_id
        assert device.post("/api/auth/logout", headers=bearer).status_code == 200
        assert device.get("/api/users/me", headers=bearer).status_code == 401


def test_a_wrong_password_is_401(version: str) -> None:
    with house(version) as one:
        answer = one.client.post("/api/auth/login", json={"email": "ann@example.com", "password": "guess"})
        assert answer.status_code == 401


def test_an_expired_or_revoked_session_is_401(version: str) -> None:
    with house(version) as one, httpx.Client(**patient(one.base_url)) as device:
        token = one.sim.add_session(one.user_id, expires_at=START + timedelta(hours=1))
        bearer = {"Authorization": f"Bearer {token}"}
        assert device.get("/api/users/me", headers=bearer).status_code == 200
        one.clock.forward(hours=1)
        assert device.get("/api/users/me", headers=bearer).status_code == 401
        other = {"Authorization": f"Bearer {one.sim.add_session(one.user_id)}"}
        one.sim.revoke_sessions(one.user_id)
        assert device.get("/api/users/me", headers=other).status_code == 401


def test_ping_answers_json_whatever_is_accepted_and_only_at_its_new_path(version: str) -> None:
    with house(version) as one:
        assert one.client.get("/api/server/ping", headers={"Accept": "image/png"}).json() == {"res": "pong"}
        assert one.client.get("/api/server-info/ping").status_code == 404
        assert "html" in one.client.get("/server/ping").headers["content-type"]


def test_the_trash_setting_shows_in_the_features_and_not_in_the_days(version: str) -> None:
    with house(version, trash_enabled=False, trash_days=3) as one:
        assert one.client.get("/api/server/features").json()["trash"] is False
        assert one.client.get("/api/server/config").json()["trashDays"] == 3


def test_the_version_is_told_in_numbers(version: str) -> None:
    with house(version) as one:
        told = one.client.get("/api/server/version").json()
        assert f"{told['major']}.{told['minor']}.{told['patch']}" == version
