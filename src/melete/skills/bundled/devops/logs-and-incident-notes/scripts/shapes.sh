#!/usr/bin/env bash
# The kinds of log lines that match a pattern, numbers and identifiers taken out: how many of each, and the first one.
# usage: shapes.sh PATTERN FILE
set -euo pipefail
grep -nE "$1" "$2" | awk '
  {
    shape = $0
    sub(/^[0-9]+:[^ ]* /, "", shape)                       # line number and time stamp
    gsub(/[0-9a-fA-F]+-[0-9a-fA-F]+-[0-9a-fA-F-]+/, "N", shape)
    gsub(/0x[0-9a-fA-F]+/, "N", shape)
    gsub(/=[0-9a-fA-F]*[0-9][0-9a-fA-F]*/, "=N", shape)
    gsub(/=[0-9a-f][0-9a-f][0-9a-f]+ /, "=N ", shape)      # an identifier that happens to hold no digit
    gsub(/[0-9]+/, "N", shape)
    if (!(shape in count)) first[shape] = $0
    count[shape]++
  }
  END { for (shape in count) printf "%7d %s\n        first: %s\n", count[shape], shape, first[shape] }
' | paste - - | sort -k1,1rn | head -n 20 | tr '\t' '\n'
