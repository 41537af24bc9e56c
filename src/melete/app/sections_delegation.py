"""The settings of delegation. Part of the composition root, pure."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1)]


class VerifySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of an answer that claims what no call of its run has done."""

    claims: Annotated[
        Literal["off", "mark", "check"],
        Meta(description="off: nothing; mark: a remark beside the answer; check: the model is asked once more first."),
    ] = "mark"


class DelegationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Children that an agent hands parts of its work to."""

    model: Annotated[str, Meta(description="The model of children, as [PROVIDER/]NAME; empty is the parent's.")] = ""
    provider: Annotated[str, Meta(description="The vendor of that model; the name is then taken whole.")] = ""
    base_url: Annotated[str, Meta(description="Address of the API of that model; the name is then taken whole.")] = ""
    api_key: Annotated[
        str,
        Meta(
            description="Key for `base_url` or `provider` here, sent nowhere else; better kept in a variable of .env."
        ),
    ] = ""
    command: Annotated[
        str,
        Meta(
            description="A command line in place of a model: children are this program, told their goal on standard input."
        ),
    ] = ""
    reasoning_effort: Annotated[
        Literal["", "none", "minimal", "low", "medium", "high", "xhigh"],
        Meta(description="How hard children think; empty is as the parent."),
    ] = ""
    inherit_mcp_toolsets: Annotated[
        bool, Meta(description="Children keep the parent's MCP tools where their toolsets are narrowed.")
    ] = True
    max_iterations: Annotated[Count, Meta(description="Model calls of one child.")] = 50
    child_timeout_seconds: Annotated[
        float, Meta(ge=30, description="Seconds that a child has, the time of open questions not counted.")
    ] = 600.0
    max_concurrent_children: Annotated[
        Count, Meta(description="Tasks of one call, calls of one reply, and children of one agent at a time.")
    ] = 3
    max_spawn_depth: Annotated[
        Count, Meta(description="1: children do not delegate; 2: orchestrators among them do, and so on; 3 at most.")
    ] = 1
    orchestrator_enabled: Annotated[bool, Meta(description="Whether a child may be an orchestrator at all.")] = True
    background: Annotated[bool, Meta(description="Children work in the background unless a call says otherwise.")] = (
        False
    )
    isolation: Annotated[
        Literal["none", "worktree"],
        Meta(
            description="worktree: each child works in a copy of the git repository, and hands over a branch; a call may say."
        ),
    ] = "none"
    approvals: Annotated[
        Literal["deny", "ask"],
        Meta(
            description="What becomes of a child's risky calls: refused, or asked about where the parent is talked to."
        ),
    ] = "deny"
    subagent_auto_approve: Annotated[
        bool, Meta(description="Allow children's risky calls, each once, with a warning; what is forbidden stays so.")
    ] = False
    max_summary_chars: Annotated[
        Count,
        Meta(
            description="Characters of a report to the parent, at most 90,000 / max_concurrent_children; the rest is in a file."
        ),
    ] = 24_000
