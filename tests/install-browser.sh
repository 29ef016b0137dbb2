#!/usr/bin/env sh
# Installs Debian's chromium for the browser tests, unless there is a browser that they can use. Where that fails they
# fail too, and say so; the other tests need not wait for it.
set -u

for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ -n "${CHROMIUM:-}" ] || [ -d "/Applications/Google Chrome.app" ]; then exit 0; fi

as_root=
if [ "$(id -u)" -ne 0 ]; then as_root=sudo; fi
# Waits for another apt-get that may be at work.
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}
install() {
    apt install -y --no-install-recommends chromium
}
install 2>/dev/null || { apt update && install; } ||
    echo "tests/install-browser.sh: chromium cannot be installed here; install it, or set CHROMIUM to where it is" >&2
exit 0
