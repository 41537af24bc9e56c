"""Talk to an MCP server over its standard input and output: say hello, list its tools, call one. Standard library only.

usage: probe.py [--call TOOL JSON] -- COMMAND [ARGUMENT …]
"""

import json
import subprocess
import sys
import threading

SECONDS = 15


class Server:
    """A server that was started, and requests to it."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.number = 0

    def tell(self, method, **params):
        """Send a notification."""
        self._write({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def ask(self, method, **params):
        """Send a request and give its result; exits with the server's error."""
        self.number += 1
        self._write({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        for line in self.process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                sys.exit(f"not the protocol on standard output: {line[:200]!r}\nprint to standard error instead")
            if answer.get("id") == self.number and "method" not in answer:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
        sys.exit(f"the server ended (status {self.process.wait()}) before it answered {method}")

    def _write(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()


def main(arguments):
    """Print what the server is, its tools, and the answer of the call."""
    if "--" not in arguments or not arguments[arguments.index("--") + 1 :]:
        sys.exit(__doc__)
    cut = arguments.index("--")
    server = Server(arguments[cut + 1 :])
    clock = threading.Timer(SECONDS, server.process.kill)
    clock.start()
    try:
        hello = server.ask(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "probe", "version": "1"}
        )
        print(f"{hello['serverInfo']['name']} speaks {hello['protocolVersion']}: {', '.join(hello['capabilities'])}")
        server.tell("notifications/initialized")
        tools = server.ask("tools/list")["tools"]
        for tool in tools:
            wanted = tool["inputSchema"].get("required", [])
            print(f"- {tool['name']}({', '.join(wanted)}): {tool.get('description', 'NO DESCRIPTION')}")
        print(f"{len(tools)} tools, {len(json.dumps(tools)):,} bytes of schemas in each request")
        if arguments[:1] == ["--call"]:
            result = server.ask("tools/call", name=arguments[1], arguments=json.loads(arguments[2]))
            print(
                "error:" if result.get("isError") else "answer:",
                *(part.get("text", part["type"]) for part in result["content"]),
            )
    finally:
        clock.cancel()
        server.process.kill()
        server.process.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
