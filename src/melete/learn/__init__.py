"""Learning: what a session teaches is noticed, weighed and kept only as far as evidence carries it. Layer 2, a part."""
