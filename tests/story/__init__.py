"""One behaviour that a user can see in each file, through the whole application."""
