"""`library accept`: a person says that a library really lost as much as a run saw."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cli.asking import confirm
from cli.output import note, plural, say

if TYPE_CHECKING:
    from state.libraries import Registered
    from state.partition import Partition

_FOLDERS_SHOWN = 15


def accept_losses(partition: Partition, library: Registered, *, yes: bool) -> int:
    """Show what the last run missed in a library, ask, and note that it was meant (rail `collapse`)."""
    from tasks import losses

    loss = losses.last_loss(partition, library.library_id)
    if loss is None or not loss.files:
        say(f"The last run missed nothing in “{library.label}”: there is nothing to accept.")
        return 0
    folders = Counter(local_id.rpartition("/")[0] or "." for local_id, _ in loss.files)
    note(f"The last run missed {loss.lost} of the {plural(loss.held, 'photo')} that “{library.label}” held:")
    for folder, count in folders.most_common(_FOLDERS_SHOWN):
        note(f"  {count:>7}  {folder}")
    if len(folders) > _FOLDERS_SHOWN:
        note(f"  and {len(folders) - _FOLDERS_SHOWN} more folders")
    note("If a disk or a folder is missing, bring it back instead.")
    confirm(
        "If they were deleted on purpose, accept: the next run starts their quarantine, and plans as always.", yes=yes
    )
    losses.accept(partition, library.library_id, loss)
    say(f"Accepted. The next run counts these {plural(loss.lost, 'photo')} of “{library.label}” as deleted.")
    return 0
