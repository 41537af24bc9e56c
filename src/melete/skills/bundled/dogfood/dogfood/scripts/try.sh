#!/usr/bin/env bash
# Run one command as somebody new to this machine would, and write what happened to journal.md.
set -u
[ $# -eq 1 ] || { echo "usage: try.sh 'COMMAND'" >&2; exit 2; }
here=$(pwd)
mkdir -p try/home try/work
limit=
command -v timeout > /dev/null && limit="timeout ${LIMIT:-300}"
start=$SECONDS
output=$(cd try/work && env -i HOME="$here/try/home" PATH="${CLEAN_PATH:-/usr/local/bin:/usr/bin:/bin}" LANG=C.UTF-8 TERM=xterm \
  $limit bash -c "$1" 2>&1 </dev/null)
status=$?
printf '%s\n' "$output"
{
  printf '## %s\n\n```\n$ %s\n' "$(date '+%F %T')" "$1"
  printf '%s\n' "$output" | tail -n 60
  printf '```\n\nexit %s after %s s\n\n' "$status" "$((SECONDS - start))"
} >> journal.md
exit "$status"
