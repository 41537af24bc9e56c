"""Skills: what comes from outside is read here, bounded and with typed errors. Layer 2, a part."""
