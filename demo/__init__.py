"""`make demo`: the main job, from a folder of photos to the trash of a simulated server and back."""
