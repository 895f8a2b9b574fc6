"""The settings of a partition: their names, defaults and ranges (spec, Settings). The file itself is state's."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engine.errors import SettingsError

FULL_LIBRARY = "fullLibrary"
_LONGEST = 80


class Strictness(StrEnum):
    """What happens to a candidate whose deletion no change log confirmed."""

    TRUSTING = "trusting"
    STRICT = "strict"


class SelectedAlbums(BaseModel):
    """An indexing scope of chosen albums. An empty selection is valid and yields no candidate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    selectedAlbums: tuple[str, ...]


class Settings(BaseModel):
    """One partition's settings. A missing key takes its default, an unknown key is kept and written back."""

    model_config = ConfigDict(frozen=True, extra="allow", validate_default=True)

    indexingScope: str | SelectedAlbums = Field(
        default=FULL_LIBRARY,
        description='"fullLibrary", or {"selectedAlbums": [album ids]}; an empty list means nothing is in scope.',
    )
    deletionStrictness: Strictness = Field(
        default=Strictness.TRUSTING,
        description="trusting: an unconfirmed deletion is trashed; strict: it waits for your review.",
    )
    quarantineDays: int = Field(
        default=14, ge=0, le=90, strict=True, description="Days a confirmed deletion waits before it may be trashed."
    )
    useIncrementalServerSync: bool = Field(
        default=True,
        strict=True,
        description="After `deletion-sync login`, ask the server for its changes only instead of listing everything.",
    )
    thresholdPercent: float = Field(
        default=1.0,
        gt=0,
        le=100,
        description="A run that would trash more than this percentage of matched assets aborts.",
    )
    thresholdFloor: int = Field(
        default=5, ge=0, le=1000, strict=True, description="Up to this many assets the percentage is not applied."
    )
    pageSize: int = Field(default=1000, ge=1, le=1000, strict=True, description="Assets per search page.")
    includeExternalLibraries: bool = Field(
        default=False, strict=True, description="Whether assets of the server's external libraries may be candidates."
    )
    applyScheduledRuns: bool = Field(
        default=False,
        strict=True,
        description="After the first confirmed deletion, let real runs apply their own plan without asking.",
    )

    hashSizeLimitMB: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        strict=True,
        description="Files larger than this many megabytes are left for `library hash-now`; 0: no limit.",
    )
    hashTimeBudgetSeconds: int = Field(
        default=0,
        ge=0,
        le=604_800,
        strict=True,
        description="A run stops reading files after this many seconds, and the next goes on; 0: no limit.",
    )
    hashRetries: int = Field(
        default=3,
        ge=0,
        le=100,
        strict=True,
        description="A file that failed in this many runs is read again when it changes, or by `library hash-now`; "
        "0: always.",
    )

    @field_validator("indexingScope")
    @classmethod
    def _scope_is_known(cls, value: str | SelectedAlbums) -> str | SelectedAlbums:
        if isinstance(value, str) and value != FULL_LIBRARY:
            raise ValueError('expected "fullLibrary" or {"selectedAlbums": [...]}')
        return value

    @property
    def selected_albums(self) -> tuple[str, ...] | None:
        """The album ids of a restricted scope, or None for the full library."""
        return None if isinstance(self.indexingScope, str) else self.indexingScope.selectedAlbums


def parse_settings(payload: dict[str, Any]) -> Settings:
    """Settings of a decoded JSON object. Raises SettingsError naming each bad key and its range."""
    try:
        return Settings.model_validate(payload)
    except ValidationError as error:
        keys = dict.fromkeys(str(problem["loc"][0]) for problem in error.errors())
        problems = "; ".join(f"{key} is {_shown(payload.get(key))}, and may be {allowed(key)}" for key in keys)
        raise SettingsError(
            f"Settings not accepted: {problems}.", "See `deletion-sync settings show` for what each means."
        ) from None


def allowed(key: str) -> str:
    """What a setting may be, in words: ``0 to 90``, ``true or false``."""
    schema = Settings.model_json_schema()
    found: dict[str, Any] = schema["properties"][key]
    found = {**schema["$defs"].get(str(found.get("$ref", "")).rpartition("/")[2], {}), **found}
    if "enum" in found:
        return " or ".join(map(str, found["enum"]))
    if found.get("type") == "boolean":
        return "true or false"
    if "maximum" not in found:
        return f'"{FULL_LIBRARY}" or {{"selectedAlbums": [album ids]}}'
    low = f"over {found['exclusiveMinimum']:g}" if "exclusiveMinimum" in found else f"{found['minimum']:g}"
    return f"{low} to {found['maximum']:g}{', whole' if found['type'] == 'integer' else ''}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
