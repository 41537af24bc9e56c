"""Layer 2: places with a shell and files, each behind `core.ports.Environment`."""
