"""The running Python as files of an image."""
