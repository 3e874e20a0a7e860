"""Attributes of other people's modules, replaced for a while, and modules that are watched for being imported."""

from __future__ import annotations

import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def installed_version(distribution: str) -> str:
    """The version of a library, without importing it."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "(unknown version)"


class Patches:
    """Replaced attributes, and what they were."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace one attribute."""
        self.keep(owner, name, owner.__dict__[name])
        setattr(owner, name, value)

    def keep(self, owner: Any, name: str, value: Any) -> None:
        """Have an attribute put back to this value."""
        self._before.append((owner, name, value))

    def undo(self) -> None:
        """Put everything back, the last first."""
        while self._before:
            setattr(*self._before.pop())


class ImportWatch(MetaPathFinder):
    """Calls back when one of some modules has been imported, for the first time."""

    def __init__(self, modules: Sequence[str], on_import: Callable[[str, ModuleType], None]) -> None:
        self._modules = set(modules)
        self._on_import = on_import
        self._asking = threading.local()

    def start(self) -> None:
        """Look at what is imported already, and at what will be."""
        for name in self._modules & set(sys.modules):
            self._on_import(name, sys.modules[name])
        sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Watch no longer."""
        sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The spec that others find, with a loader that calls back."""
        if fullname not in self._modules or getattr(self._asking, "others", False):
            return None
        self._asking.others = True
        try:
            spec = find_spec(fullname)
        finally:
            self._asking.others = False
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self._on_import)
        return spec


class _CallingLoader(Loader):
    def __init__(self, loader: Loader, on_import: Callable[[str, ModuleType], None]) -> None:
        self._loader = loader
        self._on_import = on_import

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._on_import(module.__name__, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
