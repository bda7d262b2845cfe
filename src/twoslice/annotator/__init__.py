"""The annotator: a page in the browser on which a person draws the slices of a dataset, and the
small server behind it. `drawing` and `runs` are pure; only `desk`, `notes` and `exchange` write
files. The page itself is in `page/`: plain modules, no build step.
"""
