"""One decoder under the fuzzer: `python -m tests.fuzz.target NAME FOLDER SECONDS MEGABYTES`. It ends the process."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # it has no types

with atheris.instrument_imports(include=["stepwell"]):
    from tests.fuzz.attempts import attempt
    from tests.fuzz.decoders import DECODERS


def main(name: str, folder: str, seconds: str, megabytes: str) -> None:
    """Fuzz until the time is over, or until a defect is found."""
    decoder = DECODERS[name]
    for number, example in enumerate(decoder.examples):
        (Path(folder) / str(number)).write_bytes(example)

    def one(data: bytes) -> None:
        attempt(decoder, data)

    options = [f"-max_total_time={seconds}", f"-rss_limit_mb={megabytes}", "-timeout=5", "-max_len=20000"]
    atheris.Setup([sys.argv[0], folder, *options, f"-artifact_prefix={folder}/defect-"], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
