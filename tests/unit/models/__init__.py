"""Unit tests of the model part."""
