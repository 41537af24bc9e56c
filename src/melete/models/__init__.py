"""Adapters of the wires that models speak, and wrappers round them. A part: imports core only."""
