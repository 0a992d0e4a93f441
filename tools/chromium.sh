#!/usr/bin/env bash
# Install the Chromium of the distribution, which tests/browser drives, where that is possible without asking.
# Nothing fails here: without it, only those tests fail, and they say what to do.
set -euo pipefail

for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [ -n "$name" ] && command -v "$name" >/dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing chromium"
    apt-get install --yes --quiet --no-install-recommends chromium >/dev/null 2>&1 && exit 0
fi
echo "no Chromium is installed: tests/browser will fail (apt-get install chromium, or set CHROMIUM)" >&2
