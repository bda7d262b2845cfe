#!/usr/bin/env bash
# Debian's Chromium for the browser tests: installed where that may be done, else told in plain
# words that these tests are skipped. Never fails: everything else can be tested without it.
set -uo pipefail
found() { command -v chromium >/dev/null || command -v chromium-browser >/dev/null; }
found && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing Chromium for the browser tests …"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1
fi
found || echo "The browser tests of the annotator are SKIPPED: there is no Chromium, and it could not" \
  "be installed here. To run them: apt-get install chromium (or your system's package)."
