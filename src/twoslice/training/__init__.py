"""Training: scans become patches, a plan is made, and one loop trains any method; checkpoints and
run folders. The loop knows nothing of any method; how to train (optimizer, augmentation,
averaging) is a recipe. A new method needs no change here.
"""
