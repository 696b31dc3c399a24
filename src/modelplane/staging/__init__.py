"""The program that fills the volume of a ModelCache: others read its text, and import nothing of it."""
