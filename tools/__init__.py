"""What the project needs and the library does not: figures, the tables of the pages, the data that comes with it.

Nothing of it is in the wheel. Run from the root of a checkout: `python -m tools.figures`, `python -m tools.tables`.
"""
