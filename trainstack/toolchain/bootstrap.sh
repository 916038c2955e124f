#!/bin/sh
# Create .venv with the hash-locked requirements, and install the checkout into it. Does nothing if the lock is unchanged.
set -eu
cd "$(dirname "$0")/../.."

stamp=.venv/.trainstack-lock
digest() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d " " -f 1; }
expected=$(cat trainstack/toolchain/requirements.lock pyproject.toml | digest)
if [ -x .venv/bin/python ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$expected" ]; then
    exit 0
fi

# A concurrent call waits for the first one, and then finds .venv complete.
if [ "${TRAINSTACK_BOOTSTRAP_LOCKED:-}" != yes ] && command -v flock >/dev/null; then
    mkdir -p .trainstack
    TRAINSTACK_BOOTSTRAP_LOCKED=yes exec flock .trainstack/bootstrap.lock "$0" "$@"
fi

# Ubuntu 22.04's python3.11 is a release candidate of 3.11.0, for which pip selects the packages of 3.10.
is_supported() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11, 0, "final"))' 2>/dev/null
}

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null && is_supported "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

if ! [ -x .venv/bin/python ] || ! .venv/bin/python -c 'import pip' 2>/dev/null; then
    python=$(find_python)
    if [ -z "$python" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "python: installing python3 and python3-venv (about 20 s)"
        apt-get --quiet --quiet update
        DEBIAN_FRONTEND=noninteractive apt-get --quiet --quiet install --yes --no-install-recommends python3 python3-venv
        python=$(find_python)
    fi
    if [ -z "$python" ]; then
        echo "error: no Python 3.11 or later with the venv module on PATH; install it" \
            "(Debian 12 and later, Ubuntu 24.04 and later: apt-get install python3 python3-venv)" >&2
        exit 1
    fi
    rm -f "$stamp"
    "$python" -m venv --clear .venv
fi

echo "python: installing the locked packages into .venv (about 60 s)"
pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip --quiet"
$pip install --require-hashes --requirement trainstack/toolchain/requirements.lock
# The requirements of the checkout are locked and installed, so pip must not download anything else for it.
$pip install --no-deps --no-build-isolation --editable .
echo "$expected" >"$stamp"
