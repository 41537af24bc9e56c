"""Fill {{name}} placeholders of a Word file, also where Word has split one over several runs.

usage: fill_docx.py TEMPLATE.docx VALUES.json OUT.docx
"""

import json
import re
import sys
from pathlib import Path

from docx import Document

MARK = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def paragraphs(part):
    """Every paragraph of a part, those in tables and in tables of tables too."""
    yield from part.paragraphs
    for table in part.tables:
        for row in table.rows:
            for cell in row.cells:
                yield from paragraphs(cell)


def fill(paragraph, values):
    """Replace from the last mark to the first, so that earlier places stay where they are; return the names without a value."""
    missing = set()
    text = "".join(run.text for run in paragraph.runs)
    for found in reversed(list(MARK.finditer(text))):
        if found[1] not in values:
            missing.add(found[1])
            continue
        place, new = 0, str(values[found[1]])
        for run in paragraph.runs:
            length = len(run.text)
            start, end = max(found.start() - place, 0), min(found.end() - place, length)
            if start < end:
                run.text = run.text[:start] + new + run.text[end:]
                new = ""
            place += length
    return missing


def main(template, given, out):
    """Write the filled copy; fail when a placeholder has no value."""
    values = json.loads(Path(given).read_text(encoding="utf-8"))
    document = Document(template)
    parts = [document]
    for section in document.sections:
        parts += [section.header, section.footer, section.first_page_header, section.first_page_footer]
    missing = {name for part in parts for one in paragraphs(part) for name in fill(one, values)}
    if missing:
        sys.exit(f"no value for: {', '.join(sorted(missing))}; nothing was written")
    document.save(out)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
