"""Where a list of jobs runs: this machine, or a cluster. A stage hands over jobs that know nothing
of one another and gets their results back in order; it never asks where they ran.
"""
