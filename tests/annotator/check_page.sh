#!/usr/bin/env bash
# The types of the annotator's page (JSDoc), checked by TypeScript's compiler from npm.
# usage: check_page.sh FOLDER_FOR_TYPESCRIPT
set -euo pipefail
page=$(cd "$(dirname "$0")/../../src/twoslice/annotator/page" && pwd)
tsc=$1/node_modules/.bin/tsc
if [ ! -x "$tsc" ]; then
  if ! command -v npm >/dev/null; then
    echo "The types of the annotator's page are NOT CHECKED: there is no npm here."
    exit 0
  fi
  mkdir -p "$1"
  if ! npm install --prefix "$1" --no-audit --no-fund --silent typescript@7.0.2; then
    echo "The types of the annotator's page are NOT CHECKED: TypeScript could not be installed."
    exit 0
  fi
fi
"$tsc" --noEmit --checkJs --allowJs --strict --noUnusedLocals --noImplicitReturns \
  --target es2022 --module es2022 --lib es2023,dom,dom.iterable "$page"/*.js
