"""From drawn slices to label views: registrars find how each slice moves onto its neighbour, the
label is carried along, the planes check and complete each other, and a self-check says how far
each view can be trusted. Nothing here reads a dense label.
"""
