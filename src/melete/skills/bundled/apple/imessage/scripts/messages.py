"""Read Messages' database without changing it: the conversations, one of them, or those with a word."""

import argparse
import sqlite3
import sys
from datetime import datetime
from pathlib import Path

APPLE = 978307200
MESSAGES = """
select m.date, m.is_from_me, m.error, coalesce(h.id, ''), c.chat_identifier, c.guid, coalesce(c.display_name, ''), m.text, m.attributedBody
from message m join chat_message_join j on j.message_id = m.rowid join chat c on c.rowid = j.chat_id
left join handle h on h.rowid = m.handle_id
where coalesce(m.associated_message_type, 0) not between 2000 and 3999 order by m.date desc
"""


def words(text, packed):
    """The words of a message: as they stand, or out of the packed attributed text."""
    if text or not packed:
        return text or "[attachment]"
    at = packed.find(b"\x84\x01+", packed.find(b"NSString"))
    if at < 0:
        return "[unreadable]"
    at += 3
    wide = {0x81: 2, 0x82: 4}.get(packed[at], 0)
    size = int.from_bytes(packed[at + 1 : at + 1 + wide], "little") if wide else packed[at]
    return packed[at + 1 + wide : at + 1 + wide + size].decode("utf-8", "replace").replace("\ufffc", "[attachment]")


def main():
    """Print what was asked for, the oldest first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--db", default=str(Path.home() / "Library/Messages/chat.db"))
    parser.add_argument("--chats", action="store_true", help="the conversations, the latest first")
    parser.add_argument("--with", dest="who", help="part of a number, an address or a group's name")
    parser.add_argument("--word")
    parser.add_argument("--days", type=int)
    parser.add_argument("--last", type=int, default=30)
    options = parser.parse_args()
    if not (options.chats or options.who or options.word):
        parser.error("say --chats, --with or --word")
    try:
        rows = sqlite3.connect(Path(options.db).resolve().as_uri() + "?mode=ro", uri=True).execute(MESSAGES)
    except sqlite3.OperationalError as error:
        sys.exit(f"{options.db} cannot be read: {error}. Does this program have Full Disk Access?")
    found = {} if options.chats else []
    for date, mine, failed, handle, chat, guid, name, text, packed in rows:
        seconds = date / 1e9 if date > 1e12 else date
        when = datetime.fromtimestamp(seconds + APPLE).astimezone()
        if options.days and (datetime.now().astimezone() - when).days >= options.days:
            break
        if options.who and not any(options.who.lower() in one.lower() for one in (chat, handle, name)):
            continue
        if options.chats:
            found.setdefault(guid, f"{when:%Y-%m-%d %H:%M}  {guid}  {name}")
            continue
        said = words(text, packed)
        if not options.word or options.word.lower() in said.lower():
            found.append(f"{when:%Y-%m-%d %H:%M} {'!' if failed else ''}{'>' if mine else '< ' + handle} {said}")
        if len(found) >= options.last:
            break
    lines = list(found.values())[: options.last] if options.chats else found[::-1]
    print("\n".join(lines) or "nothing found")


main()
