"""Print a .vtt or .srt transcript as lines of "[time] Speaker: text", the pieces of one speaker joined.

usage: transcript.py FILE
"""

import re
import sys
from pathlib import Path

TIME = re.compile(r"(?:(\d+):)?(\d\d):(\d\d)[.,]\d+ --> ")
VOICE = re.compile(r"<v(?:\.[^ >]+)? ([^>]+)>")
NAMED = re.compile(r"^([A-Z][\w .'-]{0,40}): (.+)$")
LONGEST = 60


def main(path):
    """Print the lines."""
    joined = []
    text = Path(path).read_text(encoding="utf-8-sig")
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        lines = block.strip().split("\n")
        at = next((number for number, line in enumerate(lines) if TIME.match(line)), None)
        if at is None:
            continue
        hours, minutes, seconds = TIME.match(lines[at]).groups()
        time = f"{int(hours or 0):02}:{minutes}:{seconds}"
        said = " ".join(lines[at + 1 :]).strip()
        voice = VOICE.search(said)
        said = re.sub(r"<[^>]*>", "", said).strip()
        named = NAMED.match(said)
        speaker = voice[1].strip() if voice else named[1] if named else ""
        said = named[2] if named and not voice else said
        if joined and joined[-1][1] == speaker and (speaker or len(joined[-1][2].split()) < LONGEST):
            if said and not joined[-1][2].endswith(said):
                joined[-1][2] += f" {said}"
        elif said:
            joined.append([time, speaker, said])
    for time, speaker, said in joined:
        print(f"[{time}] {speaker}: {said}" if speaker else f"[{time}] {said}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
