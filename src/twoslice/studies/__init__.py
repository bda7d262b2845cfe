"""Grids of runs from one YAML file: the paper's tables, ablations, curves and analyses.
`files.py` is what a study file can say, `grid.py` the runs that it asks for, `study.py` the order
in which they are made. A run does nothing that the single commands do not do.
"""
