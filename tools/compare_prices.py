"""Compare the package's price table with LiteLLM's model_prices_and_context_window.json; status 1 if they differ.

python tools/compare_prices.py FILE
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

from trace_ves.runs.prices import load_prices

KEYS = {
    "input": "input_cost_per_token",
    "cached": "cache_read_input_token_cost",
    "output": "output_cost_per_token",
}


def main(file: Path) -> int:
    public = json.loads(file.read_text(encoding="utf-8"))
    by_model = {name.rpartition("/")[2]: entry for name, entry in public.items() if name.count("/") < 2}
    differences = 0
    for spec, price in load_prices().by_spec.items():
        entry = by_model.get(spec.partition(":")[2].rstrip("*"), {})
        for kind, key in KEYS.items():
            ours, stated = getattr(price, kind), entry.get(key)
            if stated is not None and not math.isclose(1e6 * stated, ours):
                print(f"{spec}: {kind} ${ours:g} of {price.date}, ${1e6 * stated:g} in {file}")
                differences += 1
    return int(differences > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
