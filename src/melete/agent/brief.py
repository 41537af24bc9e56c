"""What a child's prompt says beside the goal: who it is, what it was given, how it reports. Layer 2, pure."""

from melete.core.delegation import Rules, Task

ROLE = """You are a subagent: another agent has handed you one part of its work and waits for your report. Nobody can answer \
questions: where something is unclear, take the likeliest reading and say so."""
REPORT = """When you are done, or can go no further, answer with your report: what you did, what you found, which files you \
changed and what went wrong or is left open. Name what can be checked (paths, addresses, ids, exit statuses), and claim nothing \
that you did not see. Be brief and complete: it is all that the other agent gets."""
LOOK = "Find out where the code or the files are before you work on them; never assume a place."
COPY = """That folder belongs to a copy of {repository} made for you: change files in it only, and name them by their paths in the \
repository. What you leave is kept on a branch and handed over as it is, committed or not."""
LEAD = """You may delegate parts yourself (you are at depth {depth} of {deepest}): where two or more parts stand alone, or one \
would flood your context. Not single steps, not what is quickly done, never the whole goal. Bring what your children report \
together yourself."""


def brief(task: Task, rules: Rules, *, folder: str = "", copy_of: str = "") -> str:
    """The block of a child's system prompt for its task; `rules` are the child's own, `copy_of` is what its folder is a copy of."""
    rows = [
        ROLE,
        f"Your goal: {task.goal}" if task.goal else "Go on with your goal from where you stopped.",
        f"What you were given:\n{task.context}" if task.context else "",
        f"Work in {folder}. {LOOK}" if folder else LOOK,
        COPY.format(repository=copy_of) if copy_of else "",
        LEAD.format(depth=rules.depth, deepest=rules.deepest) if task.role == "orchestrator" else "",
        REPORT,
    ]
    return "\n\n".join(row for row in rows if row)
