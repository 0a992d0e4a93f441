"""Named statements from a folder of .sql files."""

from __future__ import annotations

from pathlib import Path

_HEADER = "-- name:"


def load_statements(folder: Path) -> dict[str, str]:
    """Every statement of the folder: `runs.claim` is `-- name: claim` in `runs.sql`. Comments are removed.

    Raises `ValueError` for a name that is used twice, a statement without a name, and a name without a statement.
    """
    statements: dict[str, str] = {}
    for file in sorted(folder.glob("*.sql")):
        for name, text in _split(file):
            if name in statements or not text:
                raise ValueError(f"{file.name}: {name} is {'empty' if not text else 'defined twice'}")
            statements[name] = text
    return statements


def _split(file: Path) -> list[tuple[str, str]]:
    parts: list[tuple[str, list[str]]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        code = line.strip()
        if code.startswith(_HEADER):
            parts.append((f"{file.stem}.{code.removeprefix(_HEADER).strip()}", []))
        elif code and not code.startswith("--"):
            if not parts:
                raise ValueError(f"{file.name}: a statement comes before the first name")
            parts[-1][1].append(code)
    return [(name, " ".join(lines).removesuffix(";")) for name, lines in parts]
