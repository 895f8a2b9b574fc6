"""The server address: one normal form, and a folder name that no other address shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.address import normalise, sanitized
from engine.errors import UsageError


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("https://photos.example.org", "https://photos.example.org"),
        ("HTTPS://Photos.Example.ORG/", "https://photos.example.org"),
        (" http://host:2283/api/ ", "http://host:2283"),
        ("http://host/api", "http://host"),
        ("http://host//api//", "http://host"),
        ("http://host/api/api", "http://host"),
        ("https://host:443/Photos/api", "https://host/Photos"),
        ("http://host:80", "http://host"),
        ("https://host:80", "https://host:80"),
        ("http://host/apiary", "http://host/apiary"),
        ("http://immich_server:2283", "http://immich_server:2283"),
        ("http://[::1]:2283/", "http://[::1]:2283"),
        ("http://[0:0:0:0:0:0:0:1]", "http://[::1]"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)
def test_every_spelling_of_an_address_has_one_normal_form(written: str, normal: str) -> None:
    assert normalise(written) == normal
    assert normalise(normal) == normal


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "photos.example.org",
        "photos.example.org:2283",
        "ftp://host",
        "http://",
        "http:///photos",
        "http://host:port",
        "http://host:0",
        "http://host:",
        "http://host:99999",
        "http://[::zz]",
        "http://ho st",
        "http://host\nHeader: x",
        "http://host\\path",
        "http://host?x=1",
        "http://host/#top",
        "http://host?",
        "http://" + "ü" * 80,
    ],
)
def test_a_malformed_address_is_refused_with_an_example(bad: str) -> None:
    with pytest.raises(UsageError) as error:
        normalise(bad)
    assert "https://photos.example.org" in str(error.value)


@pytest.mark.parametrize(
    "leaky", ["https://me:hunter2@host", "https://me:hun/hunter2@host", "https://host/?key=hunter2", "hunter2"]
)
def test_a_refused_address_is_never_quoted(leaky: str) -> None:
    with pytest.raises(UsageError) as error:
        normalise(leaky)
    assert "hunter2" not in repr(error.value) + str(error.value)
    assert error.value.__suppress_context__ or error.value.__context__ is None


_HOSTS = st.text("abcXYZ019-_.", min_size=1, max_size=8).filter(lambda h: not h.startswith("."))
_PATHS = st.text("abAB09/_-+,%.~é", max_size=12)
_URLS = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}{'/' + path if path else ''}",
    st.sampled_from(["http", "https"]),
    _HOSTS,
    st.sampled_from(["", ":80", ":443", ":2283"]),
    _PATHS,
)


@given(_URLS)
def test_normalising_twice_changes_nothing(url: str) -> None:
    assert normalise(normalise(url)) == normalise(url)


@given(_URLS, _URLS)
def test_two_addresses_share_a_folder_name_only_if_they_are_the_same(one: str, other: str) -> None:
    assert (sanitized(one).casefold() == sanitized(other).casefold()) == (normalise(one) == normalise(other))


@given(_URLS)
def test_a_folder_name_is_safe_and_leaves_room_for_the_user_id(url: str) -> None:
    name = sanitized(url)
    assert "/" not in name and "__" not in name and name.isascii() and name.startswith("http")
    assert len(name) <= 150


def test_long_addresses_that_differ_at_the_end_get_different_names() -> None:
    long = "https://host/" + "a" * 300
    assert len(sanitized(long + "b")) == 150
    assert sanitized(long + "b") != sanitized(long + "c")


def test_folder_names_are_frozen() -> None:
    """Renaming a persisted name loses the state behind it (lesson 50)."""
    assert sanitized("https://Photos.example.org:8443/My_Photos/api") == "https_photos.example.org+8443,%4dy%5f%50hotos"
