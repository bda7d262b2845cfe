"""Annotation as data: which slices were drawn in a scan and what was drawn on them; choosing and
simulating slices; checks of what people drew. Files come and go through `io`, never from here.
"""
