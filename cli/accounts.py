"""The danger zone: reset-index, clear-journal and sign-out. Each says what goes and what stays, and asks first."""

from __future__ import annotations

import typer

from cli.asking import confirm
from cli.options import Yes
from cli.output import note, say
from cli.place import credentials_here, here


def register(app: typer.Typer) -> None:
    """Add the commands of this module (spec, item 12)."""
    for name, command in (("reset-index", reset_index), ("clear-journal", clear_journal), ("sign-out", sign_out)):
        app.command(name)(command)


def reset_index(yes: Yes = False) -> int:
    """Forget what was learnt of your libraries. The next run counts as a first run."""
    from state import danger
    from tasks.clock import now

    place = here()
    confirm(
        "This wipes the hash cache (of all accounts on this computer), the observed set and all quarantine state. "
        "Credentials, exclusions, settings, the journal and the registered libraries stay. "
        "The next run is a dry run again, and reads every photo anew.",
        yes=yes,
    )
    danger.reset_index(place.home, place.partition, now().replace(tzinfo=None))
    say("The index is reset. Start again with `deletion-sync dry-run`.")
    return 0


def clear_journal(yes: Yes = False) -> int:
    """Delete the local audit log. Past runs can then be undone only by their tag on the server."""
    from state import danger

    place = here()
    confirm(
        "This deletes deletion-journal.jsonl, the record of what was trashed and what you decided. "
        "Undoing a past run then needs its tag on the server and the permission tag.read. Everything else stays.",
        yes=yes,
    )
    danger.clear_journal(place.partition)
    say("The journal is deleted.")
    return 0


def sign_out(yes: Yes = False) -> int:
    """Forget whose API keys these are. What was indexed stays."""
    from state import danger, identity
    from state.partition import activate
    from tasks.clock import now
    from tasks.incremental import end_session

    home, credentials = credentials_here()
    confirm(
        f"This computer forgets which account of {credentials.server_url} your API key belongs to. What was indexed, "
        "the exclusions, the settings and the journal stay. The next command with a key asks the server anew, and "
        "finds them again.",
        yes=yes,
    )
    known = identity.cached(home, credentials)
    partition = None
    if known is not None:
        partition = activate(home, credentials.server_url, known.user_id, note, email=known.email)
        end_session(partition)
    for line in danger.sign_out(home, credentials.server_url, partition, now().replace(tzinfo=None)):
        note(line)
    say(f"Signed out of {credentials.server_url}.")
    return 0
