"""The parts of the command line that need no process."""
