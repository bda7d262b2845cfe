"""twoslice: segment a set of 3-D scans from two labelled slices in a handful of them."""

__version__ = "0.1.0"
