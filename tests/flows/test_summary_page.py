"""The summary of a run as a page: file names are shown as they are, and none of them becomes markup."""

from __future__ import annotations

import pytest

from flows.report import _plain


@pytest.mark.parametrize("name", ["IMG_0001.JPG", "_MG_1234.CR2", "IMG-20240101-WA0001 (1).jpg", "a~2.jpg", "x+y & z!"])
def test_a_usual_file_name_is_shown_as_it_is(name: str) -> None:
    assert _plain(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[x](y)", r"\[x\](y)"),
        ("<img src=x>", "&lt;img src=x>"),
        ("www.x.y)<b>", "www.x.y)&lt;b>"),
        ("a|b", r"a\|b"),
        ("_a_", r"\_a\_"),
        ("**a**", r"\*\*a\*\*"),
        ("~~a~~ `b`", r"\~\~a\~\~ \`b\`"),
        ("&lt;", r"\&lt;"),
        ("# a", r"\# a"),
        ("- a", r"\- a"),
        ("\\[x\\](y)", r"\\\[x\\\](y)"),
        ("\\", r"\\"),
        ("a\nb\u202ec", "a?b?c"),
    ],
)
def test_a_file_name_cannot_become_markup(name: str, shown: str) -> None:
    assert _plain(name) == shown
