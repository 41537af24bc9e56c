"""Layer 2: the one way to the network for everything that may not go there by itself."""
