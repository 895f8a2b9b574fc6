"""How the demo speaks: headings, commands, what is seen, and expectations that end it when they do not hold."""

from __future__ import annotations


class NotAsExpected(Exception):
    """An expectation of the demo that did not hold, in words."""


def heading(number: int, title: str, expected: str) -> None:
    _say(f"\n{number}. {title}\n   Expected: {expected}")


def command(text: str) -> None:
    """What a user would type for what follows."""
    _say(f"   $ {text}")


def seen(text: str) -> None:
    _say(f"     {text}")


def expect(condition: bool, text: str) -> None:
    """Say that ``text`` holds. Raises NotAsExpected with it when it does not."""
    if not condition:
        raise NotAsExpected(text)
    _say(f"   ok: {text}")


def _say(text: str) -> None:
    print(text, flush=True)
