"""A seeded world in which practice pays, for measuring whether an agent learns: see benchmarks/README.md."""
