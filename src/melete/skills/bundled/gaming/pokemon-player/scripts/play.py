"""Play a Game Boy game in steps: load a state, press, let it run, tell what is on the screen, save the state."""

import argparse
import sys
from pathlib import Path

from pyboy import PyBoy

BUTTONS = ("up", "down", "left", "right", "a", "b", "start", "select")
LETTERS = {0x7F: " ", 0xE0: "'", 0xE1: "PK", 0xE2: "MN", 0xE3: "-", 0xE6: "?", 0xE7: "!"}
LETTERS |= {0xE8: ".", 0xED: ">", 0xEE: "v", 0xF4: ","}
LETTERS |= {0x80 + i: chr(ord("A") + i) for i in range(26)} | {0xA0 + i: chr(ord("a") + i) for i in range(26)}
LETTERS |= {0xF6 + i: str(i) for i in range(10)}
MEMBER, MOST = 44, 6


def parsed(words):
    """`up*3`, `a`, `wait60` as pairs of a button and a number; whatever is wrong is said before anything is pressed."""
    for word in words:
        name, _, times = word.partition("*")
        if word.startswith("wait") and word[4:].isdigit():
            yield "wait", int(word[4:])
        elif name in BUTTONS and (times or "1").isdigit():
            yield name, int(times or 1)
        else:
            sys.exit(f"{word} is none of {', '.join(BUTTONS)}, NAME*TIMES or waitFRAMES")


def seen(game, shift):
    """What Red and Blue keep in memory (Yellow one byte lower), and the letters on the screen."""

    def byte(at):
        return game.memory[at - shift]

    def two(at):
        return byte(at) * 256 + byte(at + 1)

    yield f"map {byte(0xD35E)}  x {byte(0xD362)}  y {byte(0xD361)}  badges {bin(byte(0xD356)).count('1')}"
    yield f"battle {({0: 'no', 1: 'wild', 2: 'trainer', 255: 'lost'}).get(byte(0xD057), '?')}  enemy HP {two(0xCFE6)}"
    for at in range(0xD16B, 0xD16B + MEMBER * min(byte(0xD163), MOST), MEMBER):
        yield f"  number {byte(at)}: HP {two(at + 1)}/{two(at + 0x22)}, level {byte(at + 0x21)}, status {byte(at + 4)}"
    for row in range(18):
        line = "".join(LETTERS.get(game.memory[0xC3A0 + 20 * row + column], " ") for column in range(20)).strip()
        if sum(letter.isalnum() for letter in line) > 2:
            yield f"  | {line}"


parser = argparse.ArgumentParser()
parser.add_argument("rom", type=Path)
parser.add_argument("press", nargs="*", help="such as: up*3 a wait60")
parser.add_argument("--state", type=Path, default=Path("now.state"))
parser.add_argument("--picture", type=Path, default=Path("now.png"))
options = parser.parse_args()
steps = list(parsed(options.press))
game = PyBoy(str(options.rom), window="null", sound_emulated=False, log_level="ERROR")
game.set_emulation_speed(0)
if options.state.is_file():
    with options.state.open("rb") as file:
        game.load_state(file)
for name, times in steps:
    if name == "wait":
        game.tick(times)
        continue
    for _ in range(times):
        game.button(name, 8)
        game.tick(24)
game.tick(12)
game.tick(1, True)
game.screen.image.convert("RGB").save(options.picture)
written = options.state.with_suffix(".new")
with written.open("wb") as file:
    game.save_state(file)
written.replace(options.state)
print("\n".join([game.cartridge_title, *seen(game, 1 if "YELLOW" in game.cartridge_title else 0)]))
game.stop(save=False)
