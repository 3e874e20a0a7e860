"""An object that passes everything on to a real one, whose native type can be neither changed nor derived from."""

from __future__ import annotations

from typing import Any


class StandIn:
    """Passes everything on to the real thing, which is its `__wrapped__`."""

    __slots__ = ("__weakref__", "__wrapped__")

    def __init__(self, real: Any) -> None:
        object.__setattr__(self, "__wrapped__", real)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """So that `isinstance` answers as for the real thing."""
        return type(self.__wrapped__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__wrapped__, name, value)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)
