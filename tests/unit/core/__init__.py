"""The values and the words of layer 0."""
