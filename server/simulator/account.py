"""Who asks and what the server says of itself: authentication, users, keys, sessions, server information."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any

from server.simulator.model import Auth, Session, stamp
from server.simulator.render import user_json
from server.simulator.validation import Field, checked
from server.simulator.wire import Call, Endpoint, Refusal, Reply

if TYPE_CHECKING:
    from server.simulator.store import Simulator

UNUSED_SESSION_KEPT = timedelta(days=90)
COOKIE_AGE = timedelta(days=400)
SESSION_COOKIES = ("immich_access_token", "immich_auth_type", "immich_is_authenticated")


def authenticate(sim: Simulator, headers: Mapping[str, str], query: Mapping[str, str]) -> Auth | None:
    """Who asks; None without credentials. A session token outranks a key. Raises Refusal 401 for bad credentials."""
    token = _session_token(headers, query)
    if token is not None:
        session = sim.sessions.get(token)
        now = sim.now()
        if (
            session is None
            or (session.expires_at is not None and session.expires_at <= now)
            or session.used_at + UNUSED_SESSION_KEPT <= now
        ):
            raise Refusal(401, "Invalid user token")
        session = sim.sessions[token] = replace(session, used_at=now)
        return Auth(sim.users[session.user_id], session=session)
    secret = headers.get("x-api-key") or query.get("apiKey")
    if not secret:
        return None
    key = sim.keys.get(secret)
    if key is None:
        raise Refusal(401, "Invalid API key")
    return Auth(sim.users[key.user_id], key=key)


def _session_token(headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    for name in ("x-immich-user-token", "x-immich-session-token"):
        if headers.get(name):
            return headers[name]
    if query.get("sessionKey"):
        return query["sessionKey"]
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token
    cookie = SimpleCookie(headers.get("cookie", "")).get("immich_access_token")
    return cookie.value if cookie is not None else None


def ping(sim: Simulator, call: Call) -> Reply:
    return Reply(200, {"res": "pong"})


def version(sim: Simulator, call: Call) -> Reply:
    major, minor, patch = sim.version
    body: dict[str, Any] = {"major": major, "minor": minor, "patch": patch}
    return Reply(200, body | {"prerelease": None} if sim.modern else body)


def features(sim: Simulator, call: Call) -> Reply:
    on = {"sidecar", "search", "passwordLogin", "configFile"} | ({"trash"} if sim.trash_enabled else set())
    names = ["smartSearch", "facialRecognition", "duplicateDetection", "map", "reverseGeocoding", "importFaces"]
    names += ["sidecar", "search", "trash", "oauth", "oauthAutoLaunch", "ocr", "passwordLogin", "configFile", "email"]
    if sim.modern:
        names.append("realtimeTranscoding")
    return Reply(200, {name: name in on for name in names})


def config(sim: Simulator, call: Call) -> Reply:
    body: dict[str, Any] = {
        "loginPageMessage": "",
        "trashDays": sim.trash_days,
        "userDeleteDelay": 7,
        "oauthButtonText": "Login with OAuth",
        "isInitialized": True,
        "isOnboarded": True,
        "externalDomain": "",
        "publicUsers": True,
        "mapDarkStyleUrl": "https://tiles.immich.cloud/v1/style/dark.json",
        "mapLightStyleUrl": "https://tiles.immich.cloud/v1/style/light.json",
        "maintenanceMode": False,
    }
    return Reply(200, body | {"minFaces": 3} if sim.modern else body)


def about(sim: Simulator, call: Call) -> Reply:
    name = "v" + ".".join(str(part) for part in sim.version)
    body = {"version": name, "versionUrl": f"https://github.com/immich-app/immich/releases/tag/{name}"}
    tools = dict.fromkeys(("nodejs", "exiftool", "ffmpeg", "libvips", "imagemagick"), "")
    return Reply(200, body | {"licensed": False} | tools)


def well_known(sim: Simulator, call: Call) -> Reply:
    return Reply(200, {"api": {"endpoint": "/api"}})


def users_me(sim: Simulator, call: Call) -> Reply:
    user = call.who.user
    return Reply(200, user_json(user, sim.used_bytes(user.user_id)))


def api_keys_me(sim: Simulator, call: Call) -> Reply:
    key = call.who.key
    if key is None:
        raise Refusal(403, "Not authenticated with an API Key")
    body = {"id": key.key_id, "name": key.name, "permissions": list(key.permissions)}
    return Reply(200, body | {"createdAt": stamp(key.created_at), "updatedAt": stamp(key.created_at)})


def login(sim: Simulator, call: Call) -> Reply:
    """A new session, whatever others the user has. The e-mail's case does not matter."""
    fields = {"email": Field("email", required=True), "password": Field("text", required=True)}
    wanted = checked(call.body, fields, modern=sim.modern)
    for user in sim.users.values():
        if user.email == wanted["email"].lower() and user.password == wanted["password"]:
            break
    else:
        raise Refusal(401, "Incorrect email or password")
    token = sim.add_session(user.user_id)
    expires = format_datetime(sim.now() + COOKIE_AGE, usegmt=True)
    end = f"; Max-Age={int(COOKIE_AGE.total_seconds())}; Path=/; Expires={expires}"
    body = {"accessToken": token, "userId": user.user_id, "userEmail": user.email, "name": user.name}
    flags = {"isAdmin": False, "shouldChangePassword": False, "isOnboarded": False}
    values = zip(SESSION_COOKIES, (token, "password", "true"), strict=True)
    cookies = tuple(
        f"{name}={value}{end}{'' if name == SESSION_COOKIES[2] else '; HttpOnly'}; SameSite=Lax"
        for name, value in values
    )
    return Reply(201, body | {"profileImagePath": ""} | flags, cookies=cookies)


def logout(sim: Simulator, call: Call) -> Reply:
    session = call.who.session
    if session is not None:
        sim.sessions = {token: one for token, one in sim.sessions.items() if one is not session}
    gone = tuple(f"{name}=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT" for name in SESSION_COOKIES)
    return Reply(200, {"successful": True, "redirectUri": "/auth/login?autoLaunch=0"}, cookies=gone)


def validate_token(sim: Simulator, call: Call) -> Reply:
    return Reply(200, {"authStatus": True})


def list_sessions(sim: Simulator, call: Call) -> Reply:
    """The user's sessions, the newest first."""
    mine = [one for one in sim.sessions.values() if one.user_id == call.who.user.user_id]
    return Reply(200, [_session_json(sim, one, call.who) for one in reversed(mine)])


def update_session(sim: Simulator, call: Call) -> Reply:
    """Ask one of the user's sessions to start its change stream afresh."""
    session_id = checked(call.ids, {"id": Field("uuid", required=True)}, modern=sim.modern)["id"]
    wanted = checked(call.body, {"isPendingSyncReset": Field("bool")}, modern=sim.modern)
    for session in sim.sessions.values():
        if session.session_id == session_id and session.user_id == call.who.user.user_id:
            break
    else:
        raise Refusal(400, "Not found or no session.update access")
    if wanted.get("isPendingSyncReset"):
        sim.changes.pending_resets.add(session_id)
    return Reply(200, _session_json(sim, session, call.who) | {"current": False})


def delete_sessions(sim: Simulator, call: Call) -> Reply:
    """Sign every other session of the user out."""
    auth = call.who
    sim.sessions = {
        token: one for token, one in sim.sessions.items() if one.user_id != auth.user.user_id or one is auth.session
    }
    return Reply(204)


def _session_json(sim: Simulator, session: Session, auth: Auth) -> dict[str, Any]:
    return {
        "id": session.session_id,
        "createdAt": stamp(session.created_at),
        "updatedAt": stamp(session.used_at),
        "current": session is auth.session,
        "appVersion": None,
        "deviceOS": "",
        "deviceType": "",
        "isPendingSyncReset": session.session_id in sim.changes.pending_resets,
    }


ENDPOINTS = (
    Endpoint("GET", "/.well-known/immich", well_known, public=True),
    Endpoint("GET", "/api/server/ping", ping, public=True),
    Endpoint("GET", "/api/server/version", version, public=True),
    Endpoint("GET", "/api/server/features", features, public=True),
    Endpoint("GET", "/api/server/config", config, public=True),
    Endpoint("GET", "/api/server/about", about, "server.about"),
    Endpoint("GET", "/api/users/me", users_me, "user.read"),
    Endpoint("GET", "/api/api-keys/me", api_keys_me),
    Endpoint("POST", "/api/auth/login", login, public=True),
    Endpoint("POST", "/api/auth/logout", logout),
    Endpoint("POST", "/api/auth/validateToken", validate_token),
    Endpoint("GET", "/api/sessions", list_sessions, "session.read"),
    Endpoint("PUT", "/api/sessions/{id}", update_session, "session.update"),
    Endpoint("DELETE", "/api/sessions", delete_sessions, "session.delete"),
)
