"""An MCP server with one tool, over standard input and output. Replace the tool; keep what guards it."""

import sys
from pathlib import Path

try:
    from mcp.server.mcpserver import MCPServer  # mcp 2
    from mcp.server.mcpserver.exceptions import ToolError
except ModuleNotFoundError:
    from mcp.server.fastmcp import FastMCP as MCPServer  # mcp 1
    from mcp.server.fastmcp.exceptions import ToolError

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
MOST = 20_000
server = MCPServer("notes", instructions="Notes of one folder, to be read only.")


@server.tool()
def read_note(name: str) -> str:
    """Read one note of the folder. `name` is its file name with .md, such as plan.md; list_notes gives the names."""
    path = (ROOT / name).resolve()
    if not path.is_relative_to(ROOT) or path.suffix != ".md" or not path.is_file():
        raise ToolError(f"there is no note {name!r}; list_notes gives the names")
    text = path.read_text(encoding="utf-8", errors="replace")
    return text if len(text) <= MOST else f"{text[:MOST]}\n[cut: {len(text):,} characters in all]"


@server.tool()
def list_notes() -> list[str]:
    """The names of all notes, sorted."""
    return sorted(path.name for path in ROOT.glob("*.md"))


if __name__ == "__main__":
    print(f"serving {ROOT}", file=sys.stderr)  # standard output belongs to the protocol
    server.run()
