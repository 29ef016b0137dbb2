#!/usr/bin/env bash
# The Python package: builds it into an environment of its own in the target folder, and tests it.
#   tests/python/run.sh          the tests, with the examples of the docstrings and of docs/python.md
#   STORM=1 tests/python/run.sh  with those that ask the model checker Storm, which it installs
#   tests/python/run.sh lint     formatting, lints, types, stubs
#   tests/python/run.sh bench    benches/python/agent.py, with the package in its release profile
# What is installed is noted beside the environment, so that the second call installs nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
venv=$(cd "$target" && pwd)/python
needed=tests/python/requirements.txt

if ! cmp -s "$needed" "$venv/installed.txt"; then
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$needed"
    cp "$needed" "$venv/installed.txt"
fi
# A second opinion on finite models; 160 MB, so not by default.
[ -z "${STORM:-}" ] || "$venv/bin/python" -m pip install --quiet --disable-pip-version-check stormpy==2.0.0
export VIRTUAL_ENV=$venv PATH="$venv/bin:$PATH" PYTHONDONTWRITEBYTECODE=1

profile=checked
[ "${1:-test}" != bench ] || profile=release
maturin develop --quiet --profile "$profile" --features program,trials

case "${1:-test}" in
    test) python -m pytest -q --doctest-modules python/acrl tests/python ;;
    lint)
        ruff check --no-cache
        ruff format --no-cache --check
        mypy --strict python/acrl tests/python benches/python \
            examples/{four_regions,own_environment,change_requirements}.py
        python -m mypy.stubtest --mypy-config-file pyproject.toml --allowlist tests/python/stubtest.txt acrl
        ;;
    bench) shift && python benches/python/agent.py "$@" ;;
    *) echo "$0: unknown task '$1': expected test, lint or bench" >&2; exit 2 ;;
esac
