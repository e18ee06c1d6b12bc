"""Draw the paper's figures from records, each as SVG and PNG, and a page that shows them."""

from __future__ import annotations

import argparse
from pathlib import Path

from garnet.errors import GarnetError
from tools.figures import FIGURES, measured, write


def main() -> None:
    """Draw what the command line names; all figures that have records if it names none."""
    parser = argparse.ArgumentParser(prog="python -m tools.figures", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"figures to draw: {', '.join(FIGURES)} (default: all with records)"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/figures"), help="a folder for the figures")
    parser.add_argument("--records", type=Path, default=Path("results"), help="the records that they are drawn from")
    parser.add_argument("--overwrite", action="store_true", help="replace figures of these names that are there")
    given = parser.parse_args()
    try:
        written = write(given.output, records=given.records, only=given.names, overwrite=given.overwrite)
    except GarnetError as error:
        parser.exit(1, f"error: {error}\n")
    for path in written:
        if path.suffix != ".png":
            print(path)
    if not given.names:
        for name in FIGURES.keys() - set(measured(given.records)):
            print(f"left out {name}, which has not been measured; to do so: {FIGURES[name].command}")


if __name__ == "__main__":
    main()
