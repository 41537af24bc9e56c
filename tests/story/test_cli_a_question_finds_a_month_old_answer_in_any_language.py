"""What was settled a month ago is found again by a question in one's own words, by a person and by the model."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from melete.testing import Call, ScriptedModel
from tests.story.cli import lines, melete

LONG_AGO = "2026-01-05T09:30:00Z"
NOW = "2026-02-05T09:30:00Z"
ENGLISH = (
    "Please move the metrics exporter away from the default port.",
    "Done: the metrics exporter of the lighthouse project listens on port 9464 from now on.",
)
CHINESE = ("请给新的备份服务器起个名字。", "新的备份服务器就叫青松。已经写进配置文件了。")
OTHERS = (
    ("How do I peel a mango?", "Cut along the stone and score the halves."),
    ("Which metrics matter for a blog?", "Readers who come back matter most."),
    ("今天天气怎么样?", "今天北京晴。适合出去走走。"),
    ("Rename the project folder.", "The folder is called harbour now."),
)


def talked(talks: Sequence[tuple[str, str]], folder: Path, *, clock: str) -> None:
    """Have each talk in a session of its own."""
    for prompt, said in talks:
        with ScriptedModel([said]) as model:
            done = melete("run", prompt, model=model, cwd=folder, MELETE_CLOCK=clock)
        assert done.stdout == f"{said}\n"


def test_a_person_finds_it(tmp_path: Path) -> None:
    talked([ENGLISH, CHINESE], tmp_path, clock=LONG_AGO)
    talked(OTHERS, tmp_path, clock=NOW)
    for question, answer in (
        ("Which port does the metrics exporter listen on?", "port 9464"),
        ("备份服务器叫什么名字?", "青松"),
    ):
        shown = melete("sessions", "search", question, MELETE_CLOCK=NOW)
        assert shown.returncode == 0
        best, *_ = shown.stdout.split("\n\n")
        assert answer in best
        assert "31 d ago" in best
        assert "melete run -s" in shown.stderr
        first = lines(melete("sessions", "search", question, "--json", "--until", "7d", MELETE_CLOCK=NOW).stdout)[0]
        assert answer in melete("sessions", "show", first["session"]).stdout
        none = melete("sessions", "search", question, "--json", "--since", "7d", MELETE_CLOCK=NOW).stdout
        assert first["session"] not in none


def test_the_model_finds_it(tmp_path: Path) -> None:
    talked([ENGLISH, CHINESE], tmp_path, clock=LONG_AGO)
    talked(OTHERS, tmp_path, clock=NOW)
    for question, answer in (("what port is the metrics exporter on", "port 9464"), ("备份服务器的名字", "青松")):
        search = Call("session_search", {"query": question, "until": "7d"})
        with ScriptedModel([search, "I remember."]) as model:
            melete("run", "do you remember?", model=model, cwd=tmp_path, MELETE_CLOCK=NOW)
            result = msgspec.json.decode(model.requests[-1].json["messages"][-1]["content"])
        best = result["sessions"][0]
        assert any(answer in str(hit) for hit in best["hits"])
        assert best["hits"][0]["at"].startswith("2026-01-05")
