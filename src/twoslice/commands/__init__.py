"""Commands: the functions behind `twoslice VERB`, one file a part of the way. Each loads settings,
calls one function and prints; a new one is a function here and a line in cli.py. Everything heavy
is imported inside the function that needs it, so that `twoslice --help` answers at once.
"""
