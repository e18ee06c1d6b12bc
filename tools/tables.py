"""Write what the records in results/ say into the README, into CONTRIBUTING and into the pages of docs/.

A page says `<!-- begin: NAME -->` and `<!-- end -->`; what stands between the two, lines of their own or a few words
within a sentence, is replaced by what `tools.blocks` makes of the records under that name.

python -m tools.tables           write all pages
python -m tools.tables --check   say which pages are not what the records say, and end with status 1 if any is
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from garnet.errors import GarnetError
from tools.blocks import block

ROOT = Path(__file__).resolve().parents[1]
PLACE = re.compile(r"(?P<begin><!-- begin: (?P<name>[^>]+?) -->)(?P<between>.*?)(?P<end><!-- end -->)", re.DOTALL)


def pages(root: Path = ROOT) -> list[Path]:
    """The README, CONTRIBUTING and every page of the documentation."""
    docs = root / "docs"
    return [
        root / "README.md",
        root / "CONTRIBUTING.md",
        *sorted(page for page in docs.rglob("*.md") if "_build" not in page.parts),
    ]


def rendered(text: str, records: Path = ROOT / "results") -> str:
    """The text of a page with all of its places filled in."""

    def filled(found: re.Match[str]) -> str:
        made = block(found["name"], records).strip()
        if "\n" in found["between"]:
            made = f"\n\n{made}\n\n"
        return found["begin"] + made + found["end"]

    return PLACE.sub(filled, text)


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check, stale = parser.parse_args().check, 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        try:
            wanted = rendered(text)
        except GarnetError as error:
            parser.exit(1, f"{page.relative_to(ROOT)}: {error}\n")
        if wanted != text:
            stale += 1
            print(f"{'not what the records say:' if check else 'wrote'} {page.relative_to(ROOT)}")
            if not check:
                page.write_text(wanted, encoding="utf-8")
    if check and stale:
        sys.exit("Write them with: make tables")


if __name__ == "__main__":
    main()
