"""The page: one HTML file that shows what was drawn, what came of it and how good it is.
Everything here reads results and draws; nothing is computed that a result file does not hold.
Pictures, curves and styles are inside the page: it opens anywhere, without a network.
"""
