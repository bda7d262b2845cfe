"""Inference: from a run and any scan to a label map on exactly the scan's own grid; probabilities
and uncertainty if asked. The preprocessing is the run's own; nothing is trained here.
"""
