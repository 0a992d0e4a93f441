"""Finding the workflows of a module that is named on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from stepwell.errors import InvalidOptionError, NotFoundError, StepwellError
from stepwell.replay.workflows import Workflow


def load_workflows(name: str) -> list[Workflow[Any, Any]]:
    """Every workflow in a module (`shop.orders`) or file (`orders.py`). Raises if there is none."""
    module = _load(name)
    found = {id(value): value for value in vars(module).values() if isinstance(value, Workflow)}
    if not found:
        raise InvalidOptionError(
            f"there is no workflow in {name}",
            where=getattr(module, "__file__", None) or name,
            fix="decorate an async function with @stepwell.workflow, or name another module",
        )
    return list(found.values())


def _load(name: str) -> ModuleType:
    file = Path(name)
    try:
        if name.endswith(".py") or file.is_file():
            return _load_file(file)
        _put_first(Path.cwd())
        return importlib.import_module(name)
    except StepwellError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            fix = (
                f"write {name}.py"
                if Path(f"{name}.py").is_file()
                else "name a module (shop.orders) or a file (orders.py)"
            )
            raise NotFoundError("module", name, fix=fix) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:  # whatever the author's module does when it is imported
        raise _broken(name, error) from error


def _load_file(file: Path) -> ModuleType:
    """Import a file under the name that an import statement would give it, so that stored names stay the same."""
    file = file.resolve()
    if not file.is_file():
        raise NotFoundError("file", str(file), fix="name a module (shop.orders) or a file (orders.py)")
    root, name = file.parent, file.stem
    while (root / "__init__.py").is_file():
        root, name = root.parent, f"{root.name}.{name}"
    _put_first(root)
    if "." in name:
        return importlib.import_module(name)
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(file):
            return known
        raise InvalidOptionError(f"{file} has the name of another module", where=name, fix="rename the file")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InvalidOptionError(
            f"{file} is not a Python file", fix="name a module (shop.orders) or a file (orders.py)"
        )
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _put_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _broken(name: str, error: BaseException) -> InvalidOptionError:
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    if isinstance(error, SyntaxError) and error.filename:
        where = f"{error.filename}:{error.lineno}"
    else:
        where = f"{own[-1].filename}:{own[-1].lineno}" if own else name
    return InvalidOptionError(
        f"{name} cannot be loaded: {type(error).__name__}: {error}",
        where=where,
        why="the module raised this while it was imported",
        fix="mend it, or see the whole traceback with --debug",
    )


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen ") or filename == __file__
