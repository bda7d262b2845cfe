"""How good a label map is: metrics of one mask against another, and tables over many cases.
Only this room, called by a person who holds dense labels, may read dense labels at all.
Nothing here changes a prediction or knows of networks.
"""
