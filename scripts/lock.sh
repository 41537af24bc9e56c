#!/usr/bin/env bash
# Writes requirements.lock: every version with its hashes, and no address.
set -euo pipefail
cd "$(dirname "$0")/.."

lock=requirements.lock
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT

uv pip compile --quiet --generate-hashes --universal --python-version 3.11 \
    --extra dev --no-header pyproject.toml --output-file "$fresh" "$@"
if grep -n "://" "$fresh"; then
    echo "the lock would hold an address (above); $lock was left as it was" >&2
    exit 1
fi
{
    echo "# Melete and its development tools, pinned by hash. Made by scripts/lock.sh; do not edit."
    echo "# Install: pip install --require-hashes -r requirements.lock && pip install --no-deps -e ."
    cat "$fresh"
} >"$lock"
