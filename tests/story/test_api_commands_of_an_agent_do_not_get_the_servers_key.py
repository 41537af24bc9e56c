"""The server's key opens every session of its person: programs that an agent starts, for whichever key, do not get it."""

from pathlib import Path

from melete.testing import Call, Say, ScriptedModel
from tests.served import served

KEY = "kQ7-wz2Lr9_fXo4TbV1s"


def test_commands_do_not_get_the_servers_key(tmp_path: Path) -> None:
    script = [Call(name="terminal", arguments={"command": "env"}), Say(text="Done.")]
    with (
        ScriptedModel(script) as model,
        served(tmp_path, model, env={"MELETE_SERVER_KEY": KEY, "LISTEN_PID": "1", "EDITOR": "ed"}) as server,
    ):
        begun = server.run("Show me.", key=KEY)
        assert server.ended(begun["id"], key=KEY)["status"] == "done"
        headers = {"authorization": f"Bearer {KEY}"}
        found = server.client.get(f"/api/sessions/{begun['session']}/messages", headers=headers).json()["data"]
        shown = next(one["text"] for one in found if one["role"] == "tool")
        assert "EDITOR=ed" in shown
        assert "MELETE_SERVER_KEY" not in shown
        assert "LISTEN_PID" not in shown
