#!/usr/bin/env sh
# Installs Debian's chromium for the browser tests, unless there is a browser that they can use.
set -eu

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ -n "${CHROMIUM:-}" ] || [ -d "/Applications/Google Chrome.app" ]; then exit 0; fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "tests/install-browser.sh: install chromium, or set CHROMIUM to where it is" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
# Waits for another apt-get that may be at work.
install="apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends chromium"
export DEBIAN_FRONTEND=noninteractive
$as_root $install >/dev/null 2>&1 || { $as_root apt-get -o DPkg::Lock::Timeout=300 update >/dev/null && $as_root $install >/dev/null; }
