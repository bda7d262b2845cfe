"""Networks: from an image patch (B, C, I, J, K) of any size to class scores of the same size. The
paper's V-Net, the modern recipe's U-Net, and one function that builds either from a plan;
windows over a volume too large for one pass, and the way back from the network's grid.
Nothing here knows of labels, losses or training.
"""
