"""The agent itself: the loop, the one door to every tool, approvals, budgets, the prompt. Layer 2."""
