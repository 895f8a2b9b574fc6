"""`settings show` and `settings set`. What a setting means is engine.settings'."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cli.options import AsJson
from cli.output import emit, say, table
from cli.place import here
from cli.scope import scope

app = typer.Typer(help="The settings of this server and account.", rich_markup_mode=None, no_args_is_help=True)
app.command("scope")(scope)


@app.command("show")
def show(as_json: AsJson = False) -> int:
    """Show every setting: its value, default, range and meaning."""
    from state import settings_file

    partition = here().partition
    rows = described(settings_file.load(partition).model_dump(mode="json"))
    if as_json:
        emit({"file": str(partition.settings_file), "settings": rows})
        return 0
    table(
        ["setting", "value", "default", "range", "meaning"],
        [[r["key"], json.dumps(r["value"]), json.dumps(r["default"]), r["range"], r["description"]] for r in rows],
    )
    say(f"File: {partition.settings_file}")
    return 0


@app.command("set", context_settings={"ignore_unknown_options": True})
def set_value(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A setting, as `settings show` names it.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="JSON, or the text itself.")],
) -> int:
    """Change one setting. The change is journaled."""
    from state import settings_file
    from tasks.clock import now

    partition = here().partition
    after = settings_file.set_value(partition, key, value, now()).model_dump(mode="json")
    if key == "useIncrementalServerSync" and not after[key]:
        from tasks.incremental import forget_reason

        forget_reason(partition)
    say(f"{key} is {json.dumps(after[key])} now.")
    return 0


def described(values: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per setting: key, value, default, range (text) and description."""
    from engine.settings import Settings, allowed

    schema = Settings.model_json_schema()
    defaults = Settings().model_dump(mode="json")
    return [
        {
            "key": key,
            "value": values[key],
            "default": defaults[key],
            "range": allowed(key),
            "description": found.get("description", ""),
        }
        for key, found in schema["properties"].items()
    ]
