"""One long process of the peer, run by the peer's own Python: a line in is a message or `/new`, and the answer is printed.

Its interactive form needs a terminal and its one-shot form ends after an answer, so this calls what stands behind both. It
waits for the reviews that an answer began, which otherwise would see the next task or die with the process.
"""

import importlib
import sys
import threading
from typing import Any


def answer(cli: Any, text: str) -> str:
    """One turn, as its quiet one-shot form has it."""
    route = cli._resolve_turn_agent_config(text)
    if route["signature"] != cli._active_agent_route_signature:
        cli.agent = None
    ready = cli._init_agent(
        model_override=route["model"],
        runtime_override=route["runtime"],
        request_overrides=route.get("request_overrides"),
    )
    if not ready:
        return "the agent could not be made"
    agent: Any = vars(cli)["agent"]
    agent.quiet_mode = agent.suppress_status_output = True
    agent.stream_delta_callback = agent.tool_gen_callback = None
    result = agent.run_conversation(user_message=text, conversation_history=cli.conversation_history)
    cli.conversation_history = result["messages"]
    for thread in threading.enumerate():
        if thread.name == "bg-review":
            thread.join()
    return str(result.get("final_response", ""))


def main() -> None:
    cli = importlib.import_module("cli").HermesCLI(max_turns=60, compact=True)
    cli.tool_progress_mode = "off"
    if not cli._ensure_runtime_credentials():
        raise SystemExit("no credentials")
    for line in sys.stdin:
        if line.strip() == "/new":
            cli.new_session(silent=True)
        else:
            print(answer(cli, line.strip()), flush=True)


if __name__ == "__main__":
    main()
