"""Draw what `garnet demo` prints as docs/demo.svg, the picture in the README.

python tools/draw_demo.py
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"
WIDTH = 92
COLOURED = {"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}


def main() -> None:
    """Run the demo as on a terminal, and write the picture of what it prints."""
    line = [sys.executable, "-c", "from garnet.cli import main; main()", "demo"]
    with TemporaryDirectory() as folder:  # where the demo leaves its report
        done = subprocess.run(
            line, cwd=folder, env=os.environ | COLOURED, stdout=subprocess.PIPE, text=True, check=True
        )
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(done.stdout))
    drawing = console.export_svg(title="garnet demo")
    # The picture must not fetch fonts from anywhere: a reader's own monospaced font will do.
    drawing = re.sub(r"@font-face \{.*?\}\s*", "", drawing, flags=re.DOTALL).replace("Fira Code", "monospace")
    TARGET.write_text(drawing)
    print(f"wrote {TARGET.name}")


if __name__ == "__main__":
    main()
