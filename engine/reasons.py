"""Why a candidate is where it is, in a few words for a list. engine.explain_lines has the whole sentences."""

from __future__ import annotations

# docs/rules.md, section 4, in a person's words
REASONS = {
    "confirmed": "you deleted it",
    "unconfirmed": "it is not in your library any more",
    "quarantine": "deleted, in quarantine",
    "retired_edit": "an earlier edit of a photo",
    "deleted_again": "deleted again after you protected it",
    "history_lost": "the local history was lost",
    "not_vouched_for": "no library here tells of its deletion",
    "in_other_library": "another registered library has it",
    "alive_under_another_checksum": "a photo of its name and time is still there",
    "motion_foreign": "its motion video is not yours or is locked",
    "motion_alive": "its motion video is still there",
    "motion_excluded": "its motion video is protected",
    "orphan_motion": "a motion video without its still",
}
