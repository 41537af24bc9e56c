"""Faults of a model's server, single and twice in a row: does a one-shot run still answer, and after how many seconds.

Each subject runs with its defaults and gets the same script: the fault (or the fault twice), then the answer. The faults of the
network and the server come at the first request; the overflow comes after ten tool calls with long results, as it does in life.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.measure import run
from benchmarks.report import Row, by_name, chosen, parser, say, show
from benchmarks.subjects import Subject, make
from melete.testing import Call, Fault, Reply, Say, ScriptedModel

ANSWER = "Recovered at last."
STALL = 60.0
AT_ONCE = "This model's maximum context length is 8192 tokens, however your messages resulted in 9000 tokens."
GIVE_UP = 400.0

FAULTS: dict[str, Fault] = {
    "429": Fault("rate_limited"),
    "500": Fault("server_error"),
    "529": Fault("status", status=529, message="overloaded"),
    "reset": Fault("reset"),
    "reset in mid-stream": Fault("reset_midway", after=4),
    "empty": Fault("empty"),
    "context overflow": Fault("overflow"),
    "context overflow at once": Fault("overflow", message=AT_ONCE),
    "60 s stall": Fault("stall", after=4, seconds=STALL, reply=Say(ANSWER, pieces=4)),
    "malformed arguments": Fault("malformed_arguments"),
    "unknown tool": Fault("unknown_tool"),
    "slow tokens": Fault("slow", seconds=0.2, reply=Say(ANSWER, pieces=4)),
    "HTML page": Fault("html"),
    "truncated JSON": Fault("truncated"),
    "duplicate call ids": Fault("duplicate_ids"),
    "wrong content type": Fault("content_type", reply=Say(ANSWER)),
}


class Script:
    """The replies of one run; requests without tools are somebody's extra work and get a title."""

    def __init__(self, fault: Fault, times: int) -> None:
        before: list[Reply | str] = []
        if fault.kind == "overflow" and fault.message != AT_ONCE:
            before = [Call("terminal", {"command": f"seq {n} 4000"}) for n in range(1, 11)]
        faults: list[Reply | str] = [fault] * times
        if fault.reply is not None and times > 1:  # a whole answer would end the run: all but the last are calls
            call = Call("terminal", {"command": "true"})
            faults[:-1] = [msgspec.structs.replace(fault, reply=call)] * (times - 1)
        self.left: list[Reply | str] = [*before, *faults]

    def __call__(self, request: dict[str, Any], _: int) -> Reply | str:
        if not request.get("tools"):
            return "A title"
        return self.left.pop(0) if self.left else ANSWER


def recover(subject: Subject, fault: Fault, times: int, *, port: int) -> float | None:
    """Seconds to the answer, None when there was none."""
    script = Script(fault, times)
    with ScriptedModel(script, port=port) as server:
        began = time.monotonic()
        try:
            ran = run(
                subject.once(f"Say hi ({fault.kind} {times})"), env=subject.env, cwd=subject.cwd, deadline=GIVE_UP
            )
        except RuntimeError as error:
            say(f"{subject.name}: {fault.kind}: {str(error)[-300:]}")
            return None
        took = time.monotonic() - began
        answered = ANSWER in ran.output and not script.left
        if not answered:
            say(f"{subject.name}: {fault.kind} ×{times}: {len(server.requests)} requests, said {ran.output[-200:]!r}")
        return took if answered else None


def main() -> None:
    """Measure and print."""
    made = parser(__doc__ or "", rounds=1)
    made.add_argument("--fault", nargs="+", choices=[*FAULTS], help="these faults alone")
    options = made.parse_args()
    found = chosen(options)
    rows: list[Row] = []
    recovered: dict[tuple[str, int], int] = {}
    wanted = options.fault or [*FAULTS]
    with tempfile.TemporaryDirectory() as root:
        with ScriptedModel() as probe:
            base_url = probe.base_url
        port = int(base_url.rpartition(":")[2].partition("/")[0])
        subjects = [make(name, Path(root), program=path, base_url=base_url) for name, path in found.items()]
        for subject in subjects:
            recover(
                subject, Fault("slow", seconds=0.0, reply=Say(ANSWER)), 0, port=port
            )  # not counted: the first start
        for name in wanted:
            for times in (1, 2):
                taken: dict[str, float | None] = {}
                for subject in subjects:
                    taken[subject.name] = recover(subject, FAULTS[name], times, port=port)
                    recovered[subject.name, times] = recovered.get((subject.name, times), 0) + (
                        taken[subject.name] is not None
                    )
                say(f"{name} ×{times}: {taken}")
                values = {n: seconds for n, seconds in taken.items() if seconds is not None}
                rows.append(
                    Row(what=f"{name}, {'single' if times == 1 else 'twice'}", unit="s", values=values, digits=1)
                )
    for times, word in ((1, "single"), (2, "twice in a row")):
        values = by_name(list(found), lambda n, t=times: float(recovered[n, t]))
        what = f"recovered of {len(wanted)}, {word}"
        rows.append(Row(what=what, unit="number", values=values, digits=0, less_is_better=False))
    show(rows, found, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
