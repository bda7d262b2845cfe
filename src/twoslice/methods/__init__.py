"""Methods: what is learned from a batch. One small file a method, and one line in `METHODS`;
the contract tests then cover it. A method has its networks and its losses, and nothing else: the
loop, optimizer, checkpoints and files are in `training`.
"""
