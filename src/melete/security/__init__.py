"""Layer 1: pure judgement about commands, texts, paths and addresses; any part may import it."""
