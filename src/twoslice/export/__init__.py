"""Export: a run or its labels in the forms that other tools take: a MONAI bundle, an ONNX model, an
nnU-Net dataset. A new form is a file here and a line in `formats.py`; nothing is trained or
predicted here, and a file under OUT is written whole or not at all.
"""
