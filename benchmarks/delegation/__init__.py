"""Delegation, measured: what a batch of children costs, what it leaves behind, what a kill loses, what a budget lets through."""
