"""Where a list of jobs runs: in this process, in processes of this machine, or on a Dask cluster.
`jobs.py` is the interface that stages use; nothing here knows of scans or networks. A job is a
function that can be imported, with plain arguments; it writes its own results, whole or not at all.
"""
