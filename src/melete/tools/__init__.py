"""Layer 2: the tools that a model may call, one idea a file, each group a `Toolset`."""
