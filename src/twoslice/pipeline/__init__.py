"""Pipeline: one unattended run from a checked dataset to a report, with its manifest `run.json`.
Each stage is a function of its own room; here they are put in order, timed, resumed, and what
fails is set aside with its reason. Nothing here computes labels, losses or metrics itself.
"""
