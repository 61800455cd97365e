"""A Spark driver: attributes the lake in each line of its input, and answers with a line.

Its arguments are the cluster's master and session options as JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from gpucost.config.load import load_config
from gpucost.engine import spark
from gpucost.errors import GpucostError
from gpucost.lake import attribution


def main(master: str, options: str) -> None:
    with spark.session(master, json.loads(options)) as session:
        for line in sys.stdin:
            request = json.loads(line)
            attribution._PAIRS_AT_ONCE = request["pairs"]
            try:
                answer = asdict(
                    spark.attribute(session, request["url"], load_config(Path(request["config"])))
                )
            except GpucostError as error:
                answer = {"error": error.message, "fix": error.fix}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
