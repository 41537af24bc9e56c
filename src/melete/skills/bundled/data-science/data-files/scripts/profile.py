"""Profile a CSV, TSV, JSON, JSONL or Parquet file: what each column holds, everything read as text."""

import sys

import duckdb

ODD = {
    "decimal comma": r"-?\d{1,3}(\.\d{3})*,\d{1,2}",
    "day-first date": r"\d{1,2}[./]\d{1,2}[./]\d{2,4}",
    "leading zeros": r"0\d+",
    "stands for nothing": r"(?i:na|n/a|nan|null|none|-|--|\?|#n/a)",
    "blanks around it": r"\s.*|.*\s",
}


def main(path: str) -> None:
    """Print the profile of one file."""
    name = path.replace("'", "''")
    if path.endswith((".json", ".jsonl", ".ndjson")):
        source = f"read_json('{name}')"
    elif path.endswith(".parquet"):
        source = f"read_parquet('{name}')"
    else:
        source = f"read_csv('{name}', all_varchar=true)"
    db = duckdb.connect()
    db.execute(f"CREATE TABLE t AS SELECT COLUMNS(*)::VARCHAR FROM {source}")
    rows = db.execute("SELECT count(*) FROM t").fetchall()[0][0]
    distinct = db.execute("SELECT count(*) FROM (SELECT DISTINCT * FROM t)").fetchall()[0][0]
    print(f"rows: {rows}   duplicate rows: {rows - distinct}")
    for column in db.sql("FROM t").columns:
        quoted = '"' + column.replace('"', '""') + '"'
        empty, differ, low, high = db.execute(
            f"SELECT count(*) FILTER (WHERE coalesce(trim({quoted}), '') = ''), count(DISTINCT {quoted}), "
            f"min({quoted}), max({quoted}) FROM t"
        ).fetchall()[0]
        odd = []
        for what, pattern in ODD.items():
            found = db.execute(
                f"SELECT count(*), min({quoted}) FROM t WHERE regexp_full_match({quoted}, ?)", [pattern]
            ).fetchall()[0]
            if found[0]:
                odd.append(f"{what}: {found[0]} (such as {found[1]!r})")
        print(
            f"{column}   empty {empty}   different {differ}   {str(low)[:40]!r} … {str(high)[:40]!r}   {'; '.join(odd)}"
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: profile.py FILE")
    main(sys.argv[1])
