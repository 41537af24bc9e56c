"""The conformance suite of the wires: every test runs over every adapter; a new wire joins with one row in adapters.py."""
