"""Addresses that smuggle: whether the judge and the client of the web refuse them, and let through what is public.

`CORPUS` is a folder with `cases.jsonl.gz`: rows of `id`, `url`, `label` (block or allow), `group`, and, where they matter,
`resolves_to`, `hops` (a chain of redirects) and `resolves_sequence` (what a name server says first and then). Every row goes
through the client itself: names are answered by the row, the world is a server on this machine that sends the redirects, and what
would have been dialled is kept. A row to be blocked counts when nothing but public addresses was dialled and the page was refused.
Nothing leaves this machine.
"""

import argparse
import asyncio
import gzip
import json
import re
import sys
import time
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from melete.core.tool import ToolError
from melete.net.dial import PinnedDialer
from melete.net.fetch import PinnedFetcher
from melete.security.urls import judge

PUBLIC = "93.184.216.34"


class World:
    """A server that stands for the world, and what one row says of it: its names, its redirects; what was dialled is kept."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []
        self.hops: list[str] = []
        self.dialled: list[str] = []
        self.turn = self.port = 0

    async def resolve(self, host: str, _: int) -> Sequence[str]:
        try:
            return [str(ip_address(host))]
        except ValueError:
            self.turn += 1
            return self.answers[min(self.turn, len(self.answers)) - 1] or [PUBLIC]

    async def connect(self, address: str, _: int) -> tuple[StreamReader, StreamWriter]:
        self.dialled.append(address)
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # it was no plain HTTP, or the client left
            await reader.readuntil(b"\r\n\r\n")
            head = f"HTTP/1.1 302 Go\r\nlocation: {self.hops.pop(0)}\r\n" if self.hops else "HTTP/1.1 200 OK\r\n"
            writer.write(f"{head}content-length: 2\r\n\r\nok".encode())
            await writer.drain()
        writer.close()

    async def attempt(self, row: dict[str, Any]) -> bool:
        """Whether a client gets what the row's address names, also when the name server has changed its mind."""
        self.answers = list(row.get("resolves_sequence") or [row.get("resolves_to") or []])
        self.hops, self.dialled, self.turn = row.get("hops", [])[1:], [], 0
        fetcher = PinnedFetcher(PinnedDialer(resolve=self.resolve, connect=self.connect))
        url = re.sub("^https", "http", row["url"], flags=re.IGNORECASE) if row["label"] == "allow" else row["url"]
        try:
            for _ in self.answers:
                await fetcher.get(url, timeout=5)
        except ToolError:
            return False
        return True


async def tried(rows: Sequence[dict[str, Any]]) -> list[bool]:
    """Whether each row went as its label says."""
    found: list[bool] = []
    world = World()
    async with asyncio.TaskGroup() as group:

        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            group.create_task(world.answer(reader, writer))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with server:
            world.port = server.sockets[0].getsockname()[1]
            for row in rows:
                fetched = await world.attempt(row)
                found.append(held(row, fetched, world.dialled))
    return found


def held(row: dict[str, Any], fetched: bool, dialled: Sequence[str]) -> bool:
    """Allowed: judged so and fetched. Blocked: nothing but public addresses dialled, and refused by the judge or on the way."""
    refused = judge(row["url"], row.get("resolves_to")).verdict == "forbid"
    if row["label"] == "allow":
        return fetched and not refused
    on_the_way = bool(row.get("hops") or row.get("resolves_sequence"))
    return all(ip_address(address).is_global for address in dialled) and not fetched and (refused or on_the_way)


def main() -> int:
    made = argparse.ArgumentParser(prog=Path(sys.argv[0]).stem, description=__doc__)
    made.add_argument("corpus", type=Path, help="the folder with cases.jsonl.gz")
    made.add_argument("--json", action="store_true", help="one JSON object in place of text")
    options = made.parse_args()
    with gzip.open(options.corpus / "cases.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    counts: Counter[str] = Counter()
    groups: dict[str, Counter[bool]] = {}
    wrong: list[str] = []
    for row, good in zip(rows, asyncio.run(tried(rows)), strict=True):
        counts[f"{row['label']} {'held' if good else 'wrong'}"] += 1
        groups.setdefault(row["group"], Counter())[good] += 1
        if not good:
            wrong.append(row["id"])
    began = time.perf_counter()
    for row in rows:
        judge(row["url"], row.get("resolves_to"))
    each = (time.perf_counter() - began) / max(1, len(rows)) * 1e6
    if options.json:
        print(json.dumps({**counts, "microseconds": round(each, 1), "wrong": wrong}))
        return 0
    for group, found in sorted(groups.items()):
        print(f"{group:<30} {found[True]:>4} of {found.total()}")
    for label in ("block", "allow"):
        total = counts[f"{label} held"] + counts[f"{label} wrong"]
        print(f"{label:<30} {counts[f'{label} held']:>4} of {total}")
    print(f"judged in {each:.1f} microseconds each; not as labelled: {', '.join(wrong) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
