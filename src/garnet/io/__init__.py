"""How the library writes: in directories of its own, whole or not at all, and never over a file of the user's."""
