"""Records the first five minutes in a real terminal: `python -m tools.terminal` writes docs/first-five-minutes.svg."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.terminal.picture import draw
from tools.terminal.screen import Line, Piece, read_screen
from tools.terminal.session import Session

PICTURE: Final = Path(__file__).resolve().parents[2] / "docs" / "first-five-minutes.svg"
_COLUMNS: Final = 112
_TITLE: Final = "The first five minutes with stepwell"
_DESCRIPTION: Final = (
    "A recorded terminal. A project is made and watched by stepwell dev; a run does two steps and waits; its worker "
    "is killed with -9, and the run continues with no step run again; three days are skipped, and the reminder goes "
    "out; it is approved, and completes."
)


class Recording:
    """What was typed and what was shown, in their order."""

    def __init__(self, folder: Path) -> None:
        self.lines: list[Line] = []
        self._env = {
            "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
        }

    def type(self, command: str) -> None:
        """A command line, as it stands on the screen."""
        self.lines.append([Piece("$ ", "dim"), Piece(command, "typed")])

    def run(self, command: str, folder: Path) -> None:
        """Run a command in the recorded terminal, to its end."""
        self.type(command)
        with Session(["sh", "-c", command], cwd=folder, env=self._env, columns=_COLUMNS) as session:
            if session.end() != 0:
                raise SystemExit(f"{command} failed:\n{session.text}")
            self.show(session.raw)

    def beside(self, command: str, folder: Path) -> str:
        """Run a command in a second terminal, of which only the command is shown."""
        subprocess.run(["sh", "-c", command], cwd=folder, env=self._env, check=True, capture_output=True)
        return f"\x1b[35m# in a second terminal: {command}\x1b[0m\r\n"

    def dev(self, folder: Path) -> None:
        """Record `stepwell dev` while it is used."""
        self.type("stepwell dev")
        with Session(["stepwell", "dev"], cwd=folder, env=self._env, columns=_COLUMNS) as session:
            session.expect("q to quit\\s+")
            said = self.beside("stepwell start order_fulfilment customer=ann amount:=42 --key order-1", folder)
            at = len(session.raw)
            session.expect("‖ approval.*\\n")
            session.type("c")
            session.expect("were run again\\s*\\n")
            session.type("t")
            session.expect("skip how far.*\\) ")
            session.type("\r")
            session.expect("‖ last_chance.*\\n")
            later = len(session.raw)
            more = self.beside("stepwell signal order-1 approve", folder)
            session.expect("completed.*\\n")
            shown = len(session.raw)
            session.type("q")
            session.end()
            raw = session.raw[:shown]
        self.show(raw[:at] + said + raw[at:later] + more + raw[later:])

    def show(self, raw: str) -> None:
        """Add what was shown."""
        lines = read_screen(raw, _COLUMNS)
        self.lines += lines[:-1] if not lines[-1] else lines


def main() -> int:
    """Record, and write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        recording = Recording(Path(folder))
        recording.run("stepwell new hello", Path(folder))
        recording.lines.append([Piece("$ ", "dim"), Piece("cd hello", "typed")])
        recording.dev(Path(folder) / "hello")
    picture = draw(recording.lines, columns=_COLUMNS, title=_TITLE, description=_DESCRIPTION)
    PICTURE.write_text(picture, encoding="utf-8")
    print(f"wrote {PICTURE.name}, {len(recording.lines)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
