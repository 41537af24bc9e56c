"""Layer 4, the surfaces: thin readers of one stream of events. They import app and core only, never one another."""
