"""A Live Photo whose still and video lie in different folders and carry the same content identifier."""

from __future__ import annotations

from tests.library.live_photo_files import apple_film, apple_note, picture
from tests.world import World

STILL = picture(apple_note("ONE-AND-THE-SAME"))
VIDEO = apple_film("ONE-AND-THE-SAME")
CUT_VIDEO = apple_film("ONE-AND-THE-SAME", mdat=50)


def others_backed_up(world: World) -> None:
    """Enough other photos that no threshold trips."""
    world.all_backed_up("other/IMG_{}.JPG", 8)
    world.change_settings(thresholdFloor=100)


def both_backed_up(world: World) -> None:
    video = world.backed_up("videos/clip.mov", VIDEO, visibility="hidden", type="VIDEO")
    world.backed_up("stills/photo.jpg", STILL, live_photo_video_id=video)
