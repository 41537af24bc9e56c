"""Layer 0: the values, protocols and words of the loop. Standard library and msgspec only, and no I/O."""
