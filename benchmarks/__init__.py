"""Measurements beside a peer, in the same run on the same machine; see README.md."""
