"""`verify`: the server, the key and its permissions, the trash, the clocks and the libraries, checked one by one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cli.library import libraries_of
from cli.options import AsJson
from cli.output import emit, note, say
from cli.place import credentials_here
from cli.session import standing
from engine.errors import DeletionSyncError, RailTripped

if TYPE_CHECKING:
    from engine.policy import Verdict
    from server.client import PhotoServer
    from state.credentials import Credentials
    from state.home import Home


@dataclass(slots=True)
class _Report:
    """What was found. ``failures`` end in exit 1, ``rails`` (a rail would abort a real run) in exit 3."""

    facts: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    rails: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return DeletionSyncError.exit_code if self.failures else RailTripped.exit_code if self.rails else 0


def verify(as_json: AsJson = False) -> int:
    """Check server, API key, trash and libraries. Nothing is changed but what is remembered of whose key it is."""
    from server.client import PhotoServer

    home, credentials = credentials_here()
    report = _Report({"server_url": credentials.server_url})
    with PhotoServer(credentials.server_url, credentials.api_key) as server:
        server.ping()
        version = str(server.version())
        report.facts["server_version"] = version
        report.lines.append(f"Server     {credentials.server_url}, version {version}")
        _permissions(server, report)
        _rails(server, report)
    _account(home, credentials, report)
    if as_json:
        emit({**report.facts, "failures": report.failures, "rails": report.rails})
    else:
        for line in report.lines:
            say(line)
    for line in (*report.failures, *report.rails):
        note(line)
    return report.exit_code


def _permissions(server: PhotoServer, report: _Report) -> None:
    """Which scopes are missing, by name, and what the optional ones would give (spec, Authentication 2)."""
    from server.client import HISTORY_SCOPES, NORMAL_SCOPES, OPTIONAL_SCOPES

    held = server.key_scopes()
    everything = "all" in held
    missing = [] if everything else sorted(NORMAL_SCOPES - held)
    history = [] if everything else sorted(HISTORY_SCOPES - held)
    optional = {} if everything else {name: gives for name, gives in OPTIONAL_SCOPES.items() if name not in held}
    optional |= dict.fromkeys(
        history, "lists runs from the server (`history`), and restores runs that the journal lost"
    )
    report.facts["scopes"] = {"missing": missing, "missing_optional": optional}
    report.lines.append(f"API key    {'all needed permissions' if not missing else 'lacks ' + ', '.join(missing)}")
    report.lines += [f"           without {name}; it {gives}" for name, gives in sorted(optional.items())]
    if missing:
        report.failures.append(
            f"The API key lacks the permission{'s' if len(missing) > 1 else ''} {', '.join(missing)}. "
            "Add it to the key on the server's page Account Settings, API Keys, or make a new key."
        )


def _needed(report: _Report, scope: str) -> None:
    """A permission that is optional elsewhere, and that nothing made up for here."""
    missing = sorted({*report.facts["scopes"]["missing"], scope})
    report.facts["scopes"]["missing"] = missing
    report.facts["scopes"]["missing_optional"].pop(scope, None)
    report.lines = [
        f"API key    lacks {', '.join(missing)}" if line.startswith("API key") else line
        for line in report.lines
        if not line.startswith(f"           without {scope};")
    ]


def _rails(server: PhotoServer, report: _Report) -> None:
    """The rails that depend on the server alone: retention and clock."""
    from tasks import clock

    policy, skew = server.trash_policy(), server.clock_skew(clock.now())
    report.facts["trash"] = {"enabled": policy.enabled, "days": policy.days}
    report.facts["clock_skew_seconds"] = skew
    kept = "on" if policy.days is None else f"on, kept for {policy.days} days"
    report.lines.append(f"Trash      {kept if policy.enabled else 'off'}")
    if skew is not None:
        report.lines.append(f"Clocks     {abs(skew):.0f} s apart")
    for verdict in (_verdict(True, None, skew), _verdict(policy.enabled, policy.days, 0.0)):
        if not verdict.passed:
            report.rails.append(f"{verdict.what} {verdict.next_step}")


def _verdict(enabled: bool, days: int | None, skew: float | None) -> Verdict:
    from engine.rails import QUIET, evaluate

    return evaluate(replace(QUIET, trash_enabled=enabled, trash_days=days, clock_skew_seconds=skew))


def _account(home: Home, credentials: Credentials, report: _Report) -> None:
    """Whose key it is, which is remembered from now on (spec, item 9), and that account's libraries."""
    from server.errors import MissingScope
    from state.partition import activate
    from tasks.opening import learn_identity

    try:
        known = learn_identity(home, credentials)
    except DeletionSyncError as error:
        report.facts["user"] = None
        report.failures.append(str(error))
        if isinstance(error, MissingScope):
            _needed(report, error.scope)
        return
    report.facts["user"] = asdict(known)
    report.lines.append(f"User       {known.name or known.email or known.user_id} ({known.user_id})")
    partition = activate(home, credentials.server_url, known.user_id, note, email=known.email)
    report.facts["faster_runs"] = standing(partition)
    report.lines.append(f"Session    {report.facts['faster_runs']}")
    libraries = libraries_of(partition)
    report.facts["libraries"] = libraries
    for library in libraries:
        report.lines.append(f"Library    {library.name}: {library.place}, {library.readable}")
        report.rails += library.problems
    if not libraries:
        report.lines.append("Library    none; add one with `deletion-sync library add FOLDER`")
