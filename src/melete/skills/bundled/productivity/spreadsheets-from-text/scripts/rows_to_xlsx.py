"""Turn checked rows into a workbook with types, a filter and totals.

usage: rows_to_xlsx.py ROWS.jsonl COLUMNS OUT.xlsx SOURCE.txt
COLUMNS: name:type with commas between, such as day:date,item:text,amount:number
Each row has these fields and "quote", a passage that stands in the source. Nothing is written when a row is wrong.
"""

import json
import sys
from datetime import date
from pathlib import Path

from openpyxl import Workbook
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

TYPES = {
    "date": date.fromisoformat,
    "number": lambda value: float(value) if not isinstance(value, bool) else None,
    "text": str,
}
FORMATS = {"date": "yyyy-mm-dd", "number": "#,##0.00", "text": "@"}


def read(path, columns, source):
    """The rows with their types, and what is wrong, line by line."""
    rows, wrong = [], []
    flat = " ".join(source.split())
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        given, row = json.loads(line), []
        quote = " ".join(str(given.get("quote", "")).split())
        if not quote or quote not in flat:
            wrong.append(f"line {number}: the quote does not stand in the source: {quote[:60]!r}")
        for name, kind in columns:
            value = given.get(name)
            try:
                row.append(None if value in (None, "") else TYPES[kind](value))
            except (TypeError, ValueError):
                wrong.append(f"line {number}: {name} is not a {kind}: {value!r}")
        rows.append([*row, quote])
    return rows, wrong


def main(given, described, out, source):
    """Write the workbook, or say what is wrong and write nothing."""
    columns = [tuple(one.split(":", 1)) for one in described.split(",")]
    rows, wrong = read(given, columns, Path(source).read_text(encoding="utf-8"))
    if wrong:
        sys.exit("\n".join([*wrong, "nothing was written"]))
    book = Workbook()
    sheet = book.active
    sheet.append([name for name, _ in columns] + ["source"])
    for row in rows:
        sheet.append(row)
    for index, (_, kind) in enumerate(columns, 1):
        letter = get_column_letter(index)
        for cell in sheet[letter][1:]:
            cell.number_format = FORMATS[kind]
        sheet.column_dimensions[letter].width = 16
        if kind == "number" and rows:
            sheet[f"{letter}{len(rows) + 3}"] = f"=SUM({letter}2:{letter}{len(rows) + 1})"
            print(f"{columns[index - 1][0]}: sum {sum(row[index - 1] or 0 for row in rows):.2f}")
    sheet.freeze_panes = "A2"
    sheet.auto_filter.ref = f"A1:{get_column_letter(len(columns) + 1)}{len(rows) + 1}"
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    book.save(out)
    print(f"{len(rows)} rows in {out}")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
