"""A world in which practice pays: calls a task, success, and what was learned wrongly, for Melete and its peer.

    python -m benchmarks evoworld --arm none --tasks 200 --sessions 2 --seed 1 --mode shot --out DIR

The same DIR goes on where it stopped; `--beside DIR …` shows other runs in the same table and picture.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.evoworld.drive import SOMEBODY, Run, pages, policy, rows
from benchmarks.evoworld.person import Person
from benchmarks.evoworld.score import curves, score, table
from benchmarks.evoworld.subjects import Hermes, Melete, Place, say
from benchmarks.evoworld.world import World, plan
from melete.learn.briefs import OPENING

BRIEFS = ("Review the conversation above", OPENING)
"""The first words of a request for a review: the peer's, and ours."""
SETTINGS = ("arm", "tasks", "sessions", "seed", "mode", "distractors", "late_verb", "noise")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=Path(sys.argv[0]).stem, description=(__doc__ or "").partition("\n")[0])
    made.add_argument("--arm", choices=["none", "oracle", "learning"], default="none", help="what is learned")
    made.add_argument("--tasks", type=int, default=200)
    made.add_argument("--sessions", type=float, default=2, help="mean number of tasks in a session")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--mode", choices=["long", "shot"], default="shot", help="a process a session, or a message")
    made.add_argument("--distractors", type=int, default=0, metavar="N", help="skills about other things")
    made.add_argument("--late-verb", action="store_true", help="descriptions of skills name the verb at their end")
    made.add_argument("--no-noise", dest="noise", action="store_false", help="the reviewer makes no mistakes")
    made.add_argument("--brief", action="append", metavar="WORDS", help="how a request for a review begins")
    made.add_argument("--melete", type=Path, default=Path(sys.executable).with_name("melete"))
    made.add_argument("--hermes", type=Path, help="measure the peer, by its program, instead")
    made.add_argument("--out", type=Path, metavar="DIR", help="keep everything here, and go on from what is there")
    made.add_argument("--beside", type=Path, nargs="+", default=[], metavar="DIR", help="show these runs too")
    made.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    made.add_argument("--progress", action="store_true", help="print each task as a JSON object when it is done")
    return made


def main() -> None:
    given = parser().parse_args()
    with kept(given.out) as folder:
        settled(given, folder)
        work(given, folder)
        report(given, folder)


@contextmanager
def kept(out: Path | None) -> Iterator[Path]:
    """The folder of this run, thrown away where none was named."""
    if out:
        out.mkdir(parents=True, exist_ok=True)
        yield out.absolute()
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(scratch)


def settled(given: argparse.Namespace, folder: Path) -> None:
    """Keep what the run is; exits when the folder holds another."""
    told = {name: getattr(given, name) for name in SETTINGS} | {"subject": "hermes" if given.hermes else "melete"}
    path = folder / "run.json"
    if path.exists() and json.loads(path.read_text()) != told:
        sys.exit(f"{folder} holds another run: {path.read_text()}\nname another folder with --out")
    path.write_text(json.dumps(told), encoding="utf-8")


def work(given: argparse.Namespace, folder: Path) -> None:
    """Do the tasks that are left."""
    made = plan(seed=given.seed, tasks=given.tasks, session=given.sessions)
    done = rows(folder / "tasks.jsonl")
    if given.progress:
        for row in done:
            print(json.dumps(row), flush=True)
    if len(done) == given.tasks:
        return
    world = World(folder / "w", made)
    world.install()
    words = given.brief or BRIEFS
    options = ["--seed", str(given.seed), *(word for one in words for word in ("--brief", one))]
    options += ["--noise"] * given.noise + ["--late"] * given.late_verb
    with pages(made) as port, policy(folder / "requests.jsonl", *options) as url:
        program = (given.hermes or given.melete).absolute()
        place = Place(program=program, root=folder / "home", base_url=url, world=world.program, page_port=port)
        subject = (Hermes if given.hermes else Melete)(place, mode=given.mode, learn=given.arm == "learning")
        if given.distractors and not done:
            Person(made, subject).crowd(given.distractors)
        page = f"http://{SOMEBODY}:{port}/notes/{made.family('web').verb}"
        try:
            run = Run(folder, made, subject, arm=given.arm, model=url, hidden=given.late_verb)
            for row in run.all(world, page=page):
                if given.progress:
                    print(json.dumps(row), flush=True)
        finally:
            subject.end()


def report(given: argparse.Namespace, folder: Path) -> None:
    """Show what came of it."""
    columns = {}
    for one in (folder, *given.beside):
        was = json.loads((one / "run.json").read_text())
        made = plan(seed=was["seed"], tasks=was["tasks"], session=was["sessions"])
        name = f"{was['subject']} {was['arm']} {was['mode']}"
        columns[name if name not in columns else one.name] = (one, score(one, made))
    picture = folder / "curve.png"
    drawn = curves({name: one for name, (one, _) in columns.items()}, picture)
    if given.out:
        say(str(picture) if drawn else "no picture: matplotlib is missing")
    run, figures = next(iter(columns.values()))
    print(
        json.dumps(json.loads((run / "run.json").read_text()) | figures)
        if given.json
        else table({name: figures for name, (_, figures) in columns.items()})
    )


if __name__ == "__main__":
    main()
