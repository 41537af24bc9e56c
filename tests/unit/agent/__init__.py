"""The loop and the one door to every tool, piece by piece."""
