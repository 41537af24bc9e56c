"""Tests of the shape of the code: sizes, layers, exported names, locality, hygiene."""
