"""Checks of request fields, with the messages of 2.x (a list of sentences) and 3.x (a list of details)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from server.simulator.wire import MISSING, Refusal

UUID4 = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
ZONED = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})")

Kind = Literal["uuid", "uuids", "bool", "flag", "int", "enum", "date", "text", "email", "texts", "enums", "strings"]


@dataclass(frozen=True, slots=True)
class Field:
    """``flag`` is a boolean of a query string. ``low`` and ``high`` bound an int, ``high`` a list of ``strings``."""

    kind: Kind
    required: bool = False
    nullable: bool = False
    low: int | None = None
    high: int | None = None
    options: tuple[str, ...] = ()


Fields = Mapping[str, Field]


def checked(payload: Any, fields: Fields, *, modern: bool) -> dict[str, Any]:
    """The known fields of a body or query, dates as datetime. Unknown fields are dropped. Raises Refusal 400."""
    if payload is MISSING:
        if modern:
            raise invalid([_wrong_type("object", payload, [])])
        payload = {}
    if not isinstance(payload, Mapping):
        payload = {}
    values: dict[str, Any] = {}
    details: list[dict[str, Any]] = []
    sentences: list[str] = []
    for name, spec in fields.items():
        value = payload.get(name, MISSING)
        if value is MISSING and not spec.required:
            continue
        if value is None and spec.nullable:
            values[name] = None
            continue
        if modern:
            found, problems = _modern(name, spec, value)
            details += problems
        else:
            found, complaints = _classic(name, spec, value)
            sentences += complaints
        values[name] = found
    if details:
        raise invalid(details)
    if sentences:
        raise Refusal(400, sentences)
    return values


def invalid(details: list[dict[str, Any]]) -> Refusal:
    """3.x's answer to fields that it does not take."""
    return Refusal(400, "Validation failed", details)


def _type_name(value: Any) -> str:
    if value is MISSING:
        return "undefined"
    if value is None:
        return "null"
    names = {bool: "boolean", str: "string", int: "number", float: "number", list: "array", dict: "object"}
    return names[type(value)]


def _wrong_type(expected: str, value: Any, path: list[str | int]) -> dict[str, Any]:
    message = f"Invalid input: expected {expected}, received {_type_name(value)}"
    return {"expected": expected, "code": "invalid_type", "path": path, "message": message}


def _bad_format(name: str, pattern: re.Pattern[str], path: list[str | int], message: str) -> dict[str, Any]:
    return {
        "origin": "string",
        "code": "invalid_format",
        "format": name,
        "pattern": f"/^{pattern.pattern}$/",
        "path": path,
        "message": message,
    }


def _one_of(options: tuple[str, ...], path: list[str | int]) -> dict[str, Any]:
    quoted = "|".join(f'"{option}"' for option in options)
    return {
        "code": "invalid_value",
        "values": list(options),
        "path": path,
        "message": f"Invalid option: expected one of {quoted}",
    }


def _modern(name: str, spec: Field, value: Any) -> tuple[Any, list[dict[str, Any]]]:
    path: list[str | int] = [name]
    match spec.kind:
        case "uuids" | "texts" | "enums" | "strings":
            if not isinstance(value, list):
                return None, [_wrong_type("array", value, path)]
            if spec.high is not None and len(value) > spec.high:
                message = f"Too big: expected array to have <={spec.high} items"
                return None, [_bound("too_big", "maximum", spec.high, path, message, origin="array")]
            return value, [
                problem for place, item in enumerate(value) for problem in _modern_item(spec, item, [name, place])
            ]
        case "int":
            return value, _modern_int(spec, value, path)
        case "bool":
            return value, [] if isinstance(value, bool) else [_wrong_type("boolean", value, path)]
        case "flag":
            if value in ("true", "false"):
                return value == "true", []
            return None, [_one_of(("true", "false"), path) | {"expected": "stringbool"}]
        case "enum":
            return value, [] if value in spec.options else [_one_of(spec.options, path)]
        case "date":
            if not isinstance(value, str) or not ZONED.fullmatch(value):
                message = f"Invalid input: expected ISO 8601 datetime string, received {_type_name(value)}"
                return None, [_bad_format("datetime", ZONED, path, message)]
            return _moment(value), []
        case "email":
            if not isinstance(value, str) or not EMAIL.fullmatch(value):
                expected = f"Invalid input: expected email, received {_type_name(value)}"
                return None, [_bad_format("email", EMAIL, path, expected)]
            return value, []
        case "uuid" | "text":
            return value, _modern_item(spec, value, path)


def _modern_item(spec: Field, item: Any, path: list[str | int]) -> list[dict[str, Any]]:
    if spec.kind == "enums":
        return [] if item in spec.options else [_one_of(spec.options, path)]
    if not isinstance(item, str):
        return [_wrong_type("string", item, path)]
    if spec.kind in ("uuid", "uuids") and not UUID4.fullmatch(item):
        return [_bad_format("uuid", UUID4, path, "Invalid UUID")]
    return []


def _modern_int(spec: Field, value: Any, path: list[str | int]) -> list[dict[str, Any]]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [_wrong_type("number", value, path)]
    if isinstance(value, float) and not value.is_integer():
        return [_wrong_type("int", value, path) | {"format": "safeint"}]
    if spec.low is not None and value < spec.low:
        message = f"Too small: expected number to be >={spec.low}"
        return [_bound("too_small", "minimum", spec.low, path, message)]
    if spec.high is not None and value > spec.high:
        return [_bound("too_big", "maximum", spec.high, path, f"Too big: expected number to be <={spec.high}")]
    return []


def _bound(
    code: str, word: str, bound: int, path: list[str | int], message: str, origin: str = "number"
) -> dict[str, Any]:
    return {"origin": origin, "code": code, word: bound, "inclusive": True, "path": path, "message": message}


def _classic(name: str, spec: Field, value: Any) -> tuple[Any, list[str]]:
    match spec.kind:
        case "uuid":
            good = isinstance(value, str) and UUID4.fullmatch(value) is not None
            return value, [] if good else [f"{name} must be a UUID"]
        case "uuids" | "texts":
            return value, _classic_list(name, spec, value)
        case "enums":
            return _classic_enums(name, spec, value)
        case "strings":
            return value, _classic_strings(name, spec, value)
        case "int":
            return _classic_int(name, spec, value)
        case "bool" | "flag":
            value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
            return value, [] if isinstance(value, bool) else [f"{name} must be a boolean value"]
        case "enum":
            listed = ", ".join(spec.options)
            return value, [] if value in spec.options else [f"{name} must be one of the following values: {listed}"]
        case "date":
            moment = _moment(value) if isinstance(value, str) else None
            return moment, [] if moment else [f"{name} must be a Date instance"]
        case "email":
            return value, [] if isinstance(value, str) and EMAIL.fullmatch(value) else [f"{name} must be an email"]
        case "text":
            empty = [f"{name} should not be empty"] if value in (MISSING, None, "") else []
            return value, empty + ([] if isinstance(value, str) else [f"{name} must be a string"])


def _classic_list(name: str, spec: Field, value: Any) -> list[str]:
    if spec.kind == "uuids":
        each = f"each value in {name} must be a UUID"
        good = [isinstance(item, str) and UUID4.fullmatch(item) is not None for item in _items(value)]
    else:
        each = f"each value in {name} should not be empty"
        good = [isinstance(item, str) and item != "" for item in _items(value)]
    problems = [] if value == [] or (good and all(good)) else [each]
    if value in (MISSING, None):
        problems.append(f"{name} should not be empty")
    return problems if isinstance(value, list) else [*problems, f"{name} must be an array"]


def _classic_enums(name: str, spec: Field, value: Any) -> tuple[list[Any], list[str]]:
    """A single value stands for a list of one."""
    items = _items(value)
    problems = [] if value not in (MISSING, None, "") else [f"{name} should not be empty"]
    if value != [] and not (items and all(item in spec.options for item in items)):
        problems.append(f"each value in {name} must be one of the following values: {', '.join(spec.options)}")
    return items, problems


def _classic_strings(name: str, spec: Field, value: Any) -> list[str]:
    items = value if isinstance(value, list) else [None]
    problems = [] if all(isinstance(item, str) for item in items) else [f"each value in {name} must be a string"]
    if spec.high is not None and not (isinstance(value, list) and len(value) <= spec.high):
        problems.append(f"{name} must contain no more than {spec.high} elements")
    return problems


def _items(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, str) else []


def _classic_int(name: str, spec: Field, value: Any) -> tuple[Any, list[str]]:
    number: Any = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = None
    comparable = isinstance(number, int | float) and not isinstance(number, bool)
    problems = []
    if spec.high is not None and not (comparable and number <= spec.high):
        problems.append(f"{name} must not be greater than {spec.high}")
    if spec.low is not None and not (comparable and number >= spec.low):
        problems.append(f"{name} must not be less than {spec.low}")
    if not comparable or number != int(number):
        problems.append(f"{name} must be an integer number")
        return None, problems
    return int(number), problems


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
