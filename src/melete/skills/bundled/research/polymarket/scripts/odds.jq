# Events, one event, or the answer of a search: each market with its outcomes in per cent, volume and tokens.
def percent: (tonumber * 1000 | round / 10 | tostring | if test("\\.") then . else . + ".0" end) + "%";
def parsed: if type == "string" then fromjson else . // [] end;
(if type == "array" then . elif has("events") then .events // [] else [.] end)
| if length == 0 then "nothing found" else .[]
| "\(.title)  [\(.slug // "")]  ends \(.endDate // "?")",
  (.markets[]? | (.outcomes | parsed) as $names | (.outcomePrices | parsed) as $prices | (.clobTokenIds | parsed) as $tokens
   | "  \(.question)\(if .closed then "  CLOSED" else "" end)  bid \(.bestBid // "?") ask \(.bestAsk // "?")  volume \(.volume // 0 | tonumber | floor)",
     (range($names | length) | "    \($names[.]) \(if $prices[.] then $prices[.] | percent else "no price" end)  token \($tokens[.] // "-")")) end
