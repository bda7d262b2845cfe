#!/usr/bin/env bash
# The pictures of README and guide: the demo's report as a browser shows it.
# usage: bash docs/images/make.sh REPORT.html
set -euo pipefail
page=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "no Chromium found: install it to make the pictures" >&2
  exit 2
}
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
"$browser" --headless --no-sandbox --disable-gpu --disable-background-networking \
  --disable-component-update --disable-sync --no-first-run --user-data-dir="$profile" \
  --hide-scrollbars --window-size=1100,1830 --screenshot="$profile/report.png" "file://$page" \
  2>/dev/null
"$here/../../.venv/bin/python" - "$profile/report.png" "$here/report.png" <<'PYTHON'
import sys
from PIL import Image

source, target = sys.argv[1:]
Image.open(source).convert("RGB").save(target, optimize=True)
PYTHON
echo "$here/report.png"
