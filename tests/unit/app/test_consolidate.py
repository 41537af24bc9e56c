"""What a merging of entries may not lose."""

import pytest

from melete.app.consolidate import lost
from melete.core.memory import MemoryEntry, Operation


def entries(*texts: str) -> list[MemoryEntry]:
    return [MemoryEntry(id=f"e{number}", target="memory", text=text) for number, text in enumerate(texts)]


def merged(text: str, *gone: str) -> list[Operation]:
    return [
        Operation(action="replace", old_text="e0", content=text),
        *(Operation(action="remove", old_text=one) for one in gone),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            ("The API listens on port 8080.", "The API's logs are in /var/log/api."),
            "API: port 8080, logs in /var/log/api.",
        ),
        (("Never push to main.", "Never force-push anywhere."), "Never push to main, never force-push anywhere."),
        (("Deploys run at 09:30.", "Deploys need Anna's yes."), "Deploy at 09:30, with Anna's yes."),
        (("Use `just ci`.", "This runs 3 jobs."), "`just ci` runs 3 jobs."),
    ],
)
def test_a_merging_that_keeps_everything_loses_nothing(old: tuple[str, str], new: str) -> None:
    assert not [*lost(entries(*old), merged(new, "e1"))]


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ("The API listens on port 8080.", "The API listens on a port.", "8080"),
        ("It retries 3 times.", "It retries.", "3"),
        ("Never push to main.", "Push to a branch, not main.", "never"),
        ("Logs are in /var/log/api.", "Logs are in /var/log/api2.", "/var/log/api"),
        ("Ask Berit before a release.", "Ask before a release.", "Berit"),
        ('The flag is "--no-cache".', "The flag is about the cache.", "--no-cache"),
        ("Darf niemals neu starten.", "Darf neu starten.", "niemals"),
        ("prefers a dark theme", "likes short answers", "“prefers a dark theme”"),
    ],
)
def test_what_is_lost_is_named(old: str, new: str, gone: str) -> None:
    assert gone in [*lost(entries(old, "Something else."), merged(new))]


def test_what_another_entry_says_is_not_lost() -> None:
    assert not [
        *lost(entries("The port is 8080.", "Port 8080 is open, the firewall lets it in."), merged("The port is open."))
    ]
