"""Volumes in and out: files of any supported format become RAS volumes, and go back to exactly
the grid they came on. Dataset folders (nnU-Net raw layout), the cache and whole-or-absent writes
live here too. Nothing here knows of slices, networks or methods.
"""
