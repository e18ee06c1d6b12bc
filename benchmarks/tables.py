"""How long it takes to read ten million payments between accounts with names, beside pandas alone; in one run.

Each is read by a process of its own, whose peak of memory is that of the system's accounting.

    python benchmarks/tables.py [--rows 10000000]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from record import save

READERS = {
    "pandas": "import pandas; print(len(pandas.read_csv({path!r})))",
    "garnet": "import garnet; print(garnet.load_graph({path!r}, weight='amount', symmetrize=True).num_edges)",
}


def main() -> None:
    """Draw the table, read it both ways, and write the record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=10_000_000)
    rows = options.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "payments.csv"
        accounts = drawn(path, rows)
        found = {name: read(code.format(path=str(path))) for name, code in READERS.items()}
        size = path.stat().st_size
    ratio = found["garnet"]["seconds"] / found["pandas"]["seconds"]
    print({**found, "ratio": round(ratio, 2)})
    save("tables", {"rows": rows, "accounts": accounts, "bytes": size, "ratio": ratio, **found})


def drawn(path: Path, rows: int) -> int:
    """Write payments whose ends are drawn at random from a fifth as many accounts; gives how many."""
    random, accounts = np.random.default_rng(0), max(2, rows // 5)
    with path.open("w") as file:
        file.write("txid,sender,receiver,amount\n")
        for begin in range(0, rows, 1 << 18):
            count = min(1 << 18, rows - begin)
            heads, tails = random.integers(accounts, size=(2, count)).tolist()
            amounts = random.gamma(2.0, 50.0, size=count).round(2).tolist()
            numbers = range(begin, begin + count)
            file.writelines(
                f"{one},acc-{head:07d},acc-{tail:07d},{amount}\n"
                for one, head, tail, amount in zip(numbers, heads, tails, amounts, strict=True)
            )
    return accounts


def read(code: str) -> dict[str, Any]:
    """Seconds and peak memory of a program, without those of starting Python and its imports."""
    timed = (
        "import time, resource\n"
        f"{code.split(';')[0]}\n"
        "begin = time.perf_counter()\n"
        f"{code.partition(';')[2].strip()}\n"
        "print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    out = subprocess.run([sys.executable, "-c", timed], check=True, capture_output=True, text=True).stdout.split()
    return {"seconds": float(out[1]), "peak_gb": int(out[2]) * 1024 / 1e9, "found": int(out[0])}


if __name__ == "__main__":
    main()
