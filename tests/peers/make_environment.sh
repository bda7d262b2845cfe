#!/bin/sh
# Make or update the virtual environment that holds nnU-Net (default: .peers/nnunet).
# It stands apart since it pulls in torchvision, which cannot be imported beside a CPU torch.
# The file `installed` is written last: an environment without it is not used.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
target=${1:-"$root/.peers/nnunet"}
python=${PYTHON:-python3}

rm -f "$target/installed"
if [ ! -x "$target/bin/python" ]; then
    "$python" -m venv "$target"
fi
"$target/bin/python" -m pip --disable-pip-version-check install --quiet \
    --constraint "$root/constraints.txt" nnunetv2==2.8.1
touch "$target/installed"
echo "$target is ready"
