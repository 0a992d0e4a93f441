"""Loading the application that a command line names: `app.py`, `app.py:app`, `shop.orders` or `shop.orders:app`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from stepwell.app import App
from stepwell.errors import InvalidOptionError, NotFoundError, StepwellError
from stepwell.nearest import nearest
from stepwell.replay.workflows import Workflow


class AppName(NamedTuple):
    """What a command line calls an application: a module or file, and the variable of the `App` in it."""

    module: str
    variable: str = ""  # "" for the only one

    @property
    def is_file(self) -> bool:
        """Whether the module is named as a file."""
        return self.module.endswith(".py")


class LoadedApp(NamedTuple):
    """An application that was loaded from a module."""

    app: App
    name: str  # "app.py:app"; without a variable if the module has workflows and no App
    unlisted: tuple[str, ...] = ()  # workflows of the module that the App does not list

    def need_work(self) -> App:
        """The app. Raises `InvalidOptionError` if it has neither workflows nor sinks for a worker."""
        if not self.app.workflows and not self.app.sinks:
            raise InvalidOptionError(
                f"there is no workflow in {self.name}",
                where=self.name,
                fix="list them: App(url, workflows=[checkout])",
            )
        return self.app


def split_name(text: str) -> AppName:
    """The parts of `app.py:app`."""
    module, colon, variable = text.rpartition(":")
    if colon and (variable.isidentifier() or module.endswith(".py")):
        return AppName(module, variable)
    return AppName(text)


def load_app(text: str) -> LoadedApp:
    """The `App` that a text names. Without a variable it is the only `App` of the module.

    A module that has workflows and no `App` stands for an `App` of these workflows. Raises if there is neither, and if
    a module has several apps and the text does not say which.
    """
    name = split_name(text)
    module = _load(name.module)
    apps = {variable: value for variable, value in vars(module).items() if isinstance(value, App)}
    if name.variable:
        return _loaded(name.module, module, name.variable, _named(name, module, apps))
    different = {id(app): variable for variable, app in reversed(apps.items())}
    if len(different) > 1:
        variables = sorted(different.values())
        raise InvalidOptionError(
            f"{name.module} has several apps: {', '.join(variables)}",
            where=_file_of(module, name),
            fix=" or ".join(f"{name.module}:{variable}" for variable in variables),
        )
    if different:
        (variable,) = different.values()
        return _loaded(name.module, module, variable, apps[variable])
    workflows = _workflows_of(module)
    if not workflows:
        raise InvalidOptionError(
            f"there is no workflow in {name.module}",
            where=_file_of(module, name),
            fix="decorate an async function with @stepwell.workflow, or name another module",
        )
    return LoadedApp(App(workflows=workflows), name.module)


def load_workflows(text: str) -> list[Workflow[Any, Any]]:
    """The workflows of an application (see `load_app`). Raises if there is none."""
    loaded = load_app(text)
    loaded.need_work()
    return list(loaded.app.workflows)


def _named(name: AppName, module: ModuleType, apps: dict[str, App]) -> App:
    found = getattr(module, name.variable, None)
    if isinstance(found, App):
        return found
    near = nearest(name.variable, apps)
    hint = f". Did you mean {name.module}:{near[0]}?" if near else ""
    known = f"its apps are {', '.join(sorted(apps))}" if apps else "it has no App"
    what = "is not an App" if hasattr(module, name.variable) else "does not exist"
    raise InvalidOptionError(
        f"{name.module}:{name.variable} {what}{hint}",
        where=_file_of(module, name),
        why=known,
        fix=f"write {name.variable} = stepwell.App(url, workflows=[...]) in {name.module}",
    )


def _loaded(name: str, module: ModuleType, variable: str, app: App) -> LoadedApp:
    listed = {each.definition for each in app.workflows}
    unlisted = tuple(each.definition for each in _workflows_of(module) if each.definition not in listed)
    return LoadedApp(app, f"{name}:{variable}", unlisted)


def _workflows_of(module: ModuleType) -> list[Workflow[Any, Any]]:
    return list({id(value): value for value in vars(module).values() if isinstance(value, Workflow)}.values())


def _file_of(module: ModuleType, name: AppName) -> str:
    return getattr(module, "__file__", None) or name.module


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
        fix="fix the error, or see the whole traceback with --debug",
    )


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen ") or filename == __file__
