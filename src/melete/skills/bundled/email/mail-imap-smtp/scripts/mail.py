"""Read a mailbox over IMAP, keep drafts, and send a draft over SMTP. Standard library only; reading marks nothing as read.

mail.py folders
mail.py list [--folder INBOX] [--search 'UNSEEN SINCE 1-Jun-2026'] [--limit 20]
mail.py read UID [--folder INBOX] [--save DIR]
mail.py draft FILE.eml [--folder Drafts]
mail.py send FILE.eml --to ADDRESS [--to ADDRESS …]       (the addresses must be exactly those of the message)
"""

import argparse
import imaplib
import os
import re
import smtplib
import ssl
import sys
from email import message_from_bytes, policy
from email.utils import getaddresses, localtime, make_msgid
from pathlib import Path

SECONDS = 30


def server(variable, port):
    """Host and port of a server, as the person set them."""
    host, _, given = os.environ[variable].partition(":")
    return host, int(given or port)


def imap():
    """A mailbox that is logged in, over TLS."""
    host, port = server("MAIL_IMAP_HOST", 993)
    box = imaplib.IMAP4_SSL(host, port, ssl_context=ssl.create_default_context(), timeout=SECONDS)
    box.login(os.environ["MAIL_USER"], os.environ["MAIL_PASSWORD"])
    return box


def done(answer):
    """The data of an answer; exits with the server's words when it is not OK."""
    status, data = answer
    if status != "OK":
        sys.exit(f"the server refused: {data}")
    return data


def parsed(data):
    """A message from its bytes."""
    return message_from_bytes(data, policy=policy.default)


def chosen(box, folder):
    """Open a folder so that nothing in it changes."""
    done(box.select(f'"{folder}"', readonly=True))


def show_list(box, options):
    """One line per message, the newest first."""
    chosen(box, options.folder)
    found = done(box.uid("SEARCH", options.search))[0].split()
    print(f"{len(found)} messages")
    for uid in reversed(found[-options.limit :]):
        parts = done(box.uid("FETCH", uid, "(FLAGS RFC822.SIZE BODY.PEEK[HEADER.FIELDS (FROM SUBJECT DATE)])"))
        about, head = parts[0]
        flags = b" ".join([about, *(part for part in parts[1:] if isinstance(part, bytes))])
        message = parsed(head)
        mark = " " if b"\\Seen" in flags else "*"
        size = re.search(rb"RFC822\.SIZE (\d+)", flags)
        print(
            f"{uid.decode():>7} {mark} {message['date']} | {message['from']} | {message['subject']} | {size[1].decode()} bytes"
        )


def show(box, options):
    """The head, the text and the attachments of one message."""
    chosen(box, options.folder)
    parts = done(box.uid("FETCH", options.uid, "(BODY.PEEK[])"))
    if not isinstance(parts[0], tuple):
        sys.exit(f"there is no message {options.uid} in {options.folder}")
    message = parsed(parts[0][1])
    for name in ("From", "To", "Cc", "Reply-To", "Date", "Subject", "Message-ID"):
        if message[name]:
            print(f"{name}: {message[name]}")
    body = message.get_body(("plain", "html"))
    print(f"\n[{body.get_content_type()}]\n{body.get_content()}" if body else "\n[no text]")
    for number, part in enumerate(message.iter_attachments(), 1):
        data = part.get_payload(decode=True) or b""
        print(f"attachment {number}: {part.get_filename()} {part.get_content_type()} {len(data)} bytes")
        if options.save:
            safe = re.sub(r"[^\w.-]", "_", Path(part.get_filename() or "part").name).lstrip(".") or "part"
            Path(options.save).mkdir(exist_ok=True)
            (Path(options.save) / f"{number}-{safe}").write_bytes(data)


def complete(path):
    """A message from a file, with the heads that a server expects."""
    message = parsed(Path(path).read_bytes())
    if not message["From"]:
        message["From"] = os.environ["MAIL_USER"]
    if not message["Date"]:
        message["Date"] = localtime()
    if not message["Message-ID"]:
        message["Message-ID"] = make_msgid(domain=os.environ["MAIL_USER"].rpartition("@")[2] or "localhost")
    return message


def send(options):
    """Send a message, when it goes to the addresses that were named and to no others."""
    message = complete(options.file)
    meant = {
        address.lower()
        for _, address in getaddresses(
            message.get_all("To", []) + message.get_all("Cc", []) + message.get_all("Bcc", [])
        )
    }
    if meant != {address.lower() for address in options.to}:
        sys.exit(f"not sent: the message goes to {', '.join(sorted(meant))}, and --to says otherwise")
    host, port = server("MAIL_SMTP_HOST", 465)
    context = ssl.create_default_context()
    if port == 465:
        link = smtplib.SMTP_SSL(host, port, context=context, timeout=SECONDS)
    else:
        link = smtplib.SMTP(host, port, timeout=SECONDS)
        link.starttls(context=context)
    with link:
        link.login(os.environ["MAIL_USER"], os.environ["MAIL_PASSWORD"])
        refused = link.send_message(message)
    print(f"sent {message['Message-ID']} to {', '.join(sorted(meant - set(refused)))}")


def main():
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("folders", "list", "read", "draft", "send"))
    parser.add_argument("file", nargs="?", help="UID or FILE.eml")
    parser.add_argument("--folder")
    parser.add_argument("--search", default="ALL")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--save")
    parser.add_argument("--to", action="append", default=[])
    options = parser.parse_args()
    if absent := [name for name in ("MAIL_USER", "MAIL_PASSWORD") if name not in os.environ]:
        sys.exit(f"not set: {', '.join(absent)}")
    if options.do == "send":
        return send(options)
    options.folder, options.uid = options.folder or ("Drafts" if options.do == "draft" else "INBOX"), options.file
    with imap() as box:
        if options.do == "folders":
            print("\n".join(line.decode() for line in done(box.list())))
        elif options.do == "list":
            show_list(box, options)
        elif options.do == "read":
            show(box, options)
        else:
            done(
                box.append(
                    f'"{options.folder}"', r"(\Draft)", None, complete(options.file).as_bytes(policy=policy.SMTP)
                )
            )
            print(f"kept in {options.folder}")
    return None


if __name__ == "__main__":
    main()
