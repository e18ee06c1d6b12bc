"""Draw what `garnet demo` prints as docs/demo.svg, the picture in the README.

python scripts/draw_demo.py
"""

from __future__ import annotations

import re
import sys
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from garnet.cli import demo

TARGET = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"


def main() -> None:
    """Run the demo on a recording console and write the picture."""
    console = Console(record=True, width=92, highlight=False, force_terminal=True, color_system="truecolor")
    sys.modules[demo.__module__].out = console  # the module has the name of its function
    with TemporaryDirectory() as folder, chdir(folder):  # where the demo leaves its report
        demo(seed=0)
    drawing = console.export_svg(title="garnet demo")
    # The picture must not fetch fonts from anywhere: a reader's own monospaced font will do.
    drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.DOTALL).replace("Fira Code", "monospace")
    TARGET.write_text(drawing)
    print(f"wrote {TARGET.name}")


if __name__ == "__main__":
    main()
