"""The wire formats that the scripted model speaks: one file each. Part `testing`."""
