"""What `content` prints is read to the last byte, or not at all."""

from __future__ import annotations

import pytest

from library.android_rows import Unreadable, numbers, result, single, texts, volumes
from tests.library.fake_adb import PRIMARY


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"Row: 0 _id=1, _size=2",  # no end
        b"Row: 1 _id=1, _size=2\n",  # begins late
        b"Row: 0 _id=1, _size=2\nRow: 2 _id=3, _size=4\n",  # a gap
        b"Row: 0 _id=1, _size=x\n",
        b"Row: 0 _id=1, _size=2\nKilled\n",
        b"WARNING: linker\nRow: 0 _id=1, _size=2\n",
        b"No result found.\nRow: 0 _id=1, _size=2\n",
    ],
)
def test_numbers_that_are_not_all_accounted_for_are_refused(output: bytes) -> None:
    with pytest.raises(Unreadable):
        numbers(output, ["_id", "_size"])


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"No result found.\n",
        b"Row: 0 _id=1, _data=/a\n",  # one of two
        b"Row: 0 _id=1, _data=/a\nRow: 1 _id=3, _data=/b\n",  # another id
        b"Row: 0 _id=1, _data=/a\nRow: 1 _id=2, _data=/b",  # no end
        b"x\nRow: 0 _id=1, _data=/a\nRow: 1 _id=2, _data=/b\n",  # something before
        b"Row: 0 _id=1, _data=/a\nRow: 1 _id=2, _data=/b\nRow: 1 _id=2, _data=/c\n",
    ],
)
def test_texts_that_are_not_those_of_the_ids_are_refused(output: bytes) -> None:
    with pytest.raises(Unreadable):
        texts(output, [1, 2], "_data")


def test_small_answers_are_read() -> None:
    assert numbers(b"No result found.\n", ["_id"]) == []
    assert numbers(b"Row: 0 _id=1, bucket_id=-7\nRow: 1 _id=2, bucket_id=NULL\n", ["_id", "bucket_id"]) == [
        (1, -7),
        (2, None),
    ]
    assert texts(b"No result found.\n", [], "_data") == []
    assert single(b"Row: 0 COUNT(_id)=12\n") == 12
    assert single(b"Row: 0 MAX(generation_modified)=NULL\n") == 0
    with pytest.raises(Unreadable):
        single(b"No result found.\n")
    assert (
        result(b"Result: Bundle[{android.intent.extra.TEXT=1409:ab-cd}]\n", "android.intent.extra.TEXT") == "1409:ab-cd"
    )
    assert result(b"Result: null\n", "android.intent.extra.TEXT") is None


def test_volumes_are_named_as_the_media_index_names_them() -> None:
    said = (
        b"private mounted null\nemulated;0 mounted null\nemulated;10 unmounted null\npublic:179,1 mounted 1A2B-3C4D\n"
    )
    assert volumes(said) == {PRIMARY: "mounted", "1a2b-3c4d": "mounted"}
    with pytest.raises(Unreadable):
        volumes(b"")
