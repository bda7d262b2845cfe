"""Objectives: losses, schedules and uncertainty as pure functions, with the paper's equation
numbers beside them. A new term is a new function here; nothing here keeps state or knows files.
"""
