"""The tests of Melete: see AGENTS.md for what each folder holds."""
