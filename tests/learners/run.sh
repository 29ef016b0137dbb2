#!/usr/bin/env bash
# The examples with other learners: builds the package into an environment with them in the target folder, and tests them.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
venv=$(cd "$target" && pwd)/learners
needed=tests/learners/requirements.txt

if ! cmp -s "$needed" "$venv/installed.txt"; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$needed"
    cp "$needed" "$venv/installed.txt"
fi
export VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1

maturin develop --quiet --profile checked
python -m pytest -q tests/learners "$@"
