"""Write the tables of docs/results from the records in results/.

Every page has lines `<!-- study: table-2 -->` and `<!-- end -->`; what stands between them is replaced.

python scripts/render_results.py
"""

from __future__ import annotations

import re
from pathlib import Path

from garnet.bench.record import latest, read_records
from garnet.bench.study import load_study
from garnet.bench.table import as_markdown, make_tables

ROOT = Path(__file__).resolve().parents[1]
PLACE = re.compile(r"(<!-- study: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def main() -> None:
    """Render every page."""
    for page in sorted((ROOT / "docs" / "results").glob("*.md")):
        text = page.read_text()
        rendered = PLACE.sub(lambda found: f"{found[1]}\n{table(found['name'])}\n{found[3]}", text)
        if rendered != text:
            page.write_text(rendered)
            print(f"wrote {page.relative_to(ROOT)}")


def table(name: str) -> str:
    """The tables of a study in Markdown."""
    study = load_study(ROOT / "studies" / f"{name}.toml")
    records, damages = read_records(ROOT / "results" / f"{study.record or name}.jsonl")
    if damages:
        raise SystemExit(f"{name}: line {damages[0].line} of its records is damaged: {damages[0].why}")
    cells = [cell.facts() for cell in study.cells]
    tables = make_tables(study.title, latest(records).values(), cells=cells, note=study.note)
    return "\n".join(as_markdown(one).rstrip() + "\n" for one in tables)


if __name__ == "__main__":
    main()
