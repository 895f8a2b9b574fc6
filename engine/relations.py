"""The relations that the steps hand each other, as Arrow schemas. docs/rules.md explains each column.

Timestamps are UTC without a zone, in microseconds. Checksums are base64 SHA-1, 28 characters (spec, Identity).
"""

from __future__ import annotations

import pyarrow as pa

TIME = pa.timestamp("us")
NAMES = pa.list_(pa.string())

# One row per part of a local asset; a Live Photo is one local_id with the parts 'primary' and 'motion'.
LOCAL = pa.schema(
    [
        ("library_id", pa.string()),
        ("local_id", pa.string()),
        ("part", pa.string()),
        ("checksum", pa.string()),  # null: not hashed yet (deferred); such a row makes the inventory incomplete
        ("file_name", pa.string()),
        ("size", pa.int64()),
        ("modified_ns", pa.int64()),
        ("file_identity", pa.string()),
        ("captured_at", TIME),  # as UTC where the source says so, else wall-clock; null if unknown
        ("albums", NAMES),
        ("in_trash", pa.bool_()),  # in the platform's recently-deleted area: still there, and deleted by its owner
    ]
)

# One row per server asset of this user, trashed ones included, locked ones never.
SERVER = pa.schema(
    [
        ("asset_id", pa.string()),
        ("owner_id", pa.string()),
        ("checksum", pa.string()),
        ("file_name", pa.string()),
        ("live_photo_video_id", pa.string()),
        ("visibility", pa.string()),
        ("is_trashed", pa.bool_()),
        ("type", pa.string()),
        ("library_id", pa.string()),
        ("captured_at", TIME),  # fileCreatedAt
        ("local_captured_at", TIME),  # localDateTime: the wall clock where the photo was taken
        ("is_favorite", pa.bool_()),
    ]
)

# One row per checksum that this partition remembers anything about.
MEMORY = pa.schema(
    [
        ("checksum", pa.string()),
        ("observed", pa.bool_()),
        ("albums", NAMES),
        ("confirmed_at", TIME),
        ("cause", pa.string()),  # 'deleted', 'retired' or 'limbo'; null when not confirmed
        ("excluded_at", TIME),
        ("anchored", pa.bool_()),  # the edit anchor of a live local id
        ("retired", pa.bool_()),  # noted as retired, not confirmed yet
        ("detached", pa.bool_()),  # of its deletion no library here tells
        ("indexed_in", pa.string()),  # a registered library that held it at its last enumeration, else null
        ("names", NAMES),  # every file name known for the content, lower case
    ]
)

# What diff and scope_filter write: server assets that are candidates for deletion.
CANDIDATES = pa.schema(
    [
        ("asset_id", pa.string()),
        ("checksum", pa.string()),
        ("file_name", pa.string()),
        ("live_photo_video_id", pa.string()),
        ("visibility", pa.string()),
        ("type", pa.string()),
        ("captured_at", TIME),
        ("local_captured_at", TIME),
        ("is_favorite", pa.bool_()),
    ]
)

# What classify writes. bucket: 'delete', 'review' or 'held'; pending is review and held together.
DECISION = pa.schema(
    [
        ("asset_id", pa.string()),
        ("checksum", pa.string()),
        ("file_name", pa.string()),
        ("visibility", pa.string()),
        ("type", pa.string()),
        ("captured_at", TIME),
        ("is_favorite", pa.bool_()),
        ("bucket", pa.string()),
        ("reason", pa.string()),
        ("due_at", TIME),
        ("days_left", pa.int32()),
        ("motion_id", pa.string()),  # the linked motion video that is trashed along, else null
        ("motion_checksum", pa.string()),
    ]
)
