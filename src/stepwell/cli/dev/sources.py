"""The code that runs, kept as text: a restarted worker gets the same code, even if the files have changed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stepwell.cli.modules import load_workflows
from stepwell.replay.workflows import Workflow


class Module(NamedTuple):
    """One module of the author."""

    name: str
    file: str
    source: str


class _Loader(SourceFileLoader):
    """Loads a module from text, under the name of its file."""

    def __init__(self, module: Module) -> None:
        super().__init__(module.name, module.file)
        self._source = module.source

    def get_data(self, path: str) -> bytes:
        return self._source.encode()

    def get_code(self, fullname: str) -> Any:
        # Not from the cache of compiled files: it belongs to the files on disk.
        return self.source_to_code(self.get_data(self.path), self.path)


class _Finder(MetaPathFinder):
    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = {module.name: module for module in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        module = self._modules.get(fullname)
        if module is None:
            return None
        file = Path(module.file)
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, module.file, loader=_Loader(module), submodule_search_locations=folders
        )


def load_app(app: str, kept: Sequence[Module]) -> list[Workflow[Any, Any]]:
    """The workflows of a module or file; modules in `kept` are loaded from their text, not from the files."""
    if kept:
        sys.meta_path.insert(0, _Finder(kept))
        file = str(Path(app).resolve())
        for module in kept:
            if module.file == file:
                sys.path.insert(0, str(root_of(app)))
                importlib.import_module(module.name)
    return load_workflows(app)


def root_of(app: str) -> Path:
    """The folder of the author's modules."""
    if not app.endswith(".py"):
        return Path.cwd()
    root = Path(app).resolve().parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def loaded_modules(app: str, kept: Sequence[Module]) -> list[Module]:
    """Every loaded module of the author."""
    root, texts = root_of(app), {module.name: module.source for module in kept}
    found = []
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name == "__main__" or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if not path.is_relative_to(root) or _is_installed(path.relative_to(root)):
            continue
        source = texts.get(name)
        try:
            found.append(Module(name, str(path), path.read_text("utf-8") if source is None else source))
        except (OSError, UnicodeDecodeError):
            continue  # a loaded module without a readable file
    return found


def _is_installed(path: Path) -> bool:
    """Whether a file below the author's folder is installed: in a virtual environment, or this package itself."""
    return any(part in ("site-packages", "node_modules", "stepwell") or part.startswith(".") for part in path.parts)
