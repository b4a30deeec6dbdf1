"""Other packages: objects that they add by entry points, and Ray where it is installed."""

import os
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Read-only mapping of the built-in objects and of an entry point group.

    An entry point is loaded when its name is looked up, not when names are listed; a built-in
    name cannot be replaced.

    >>> colours = Registry("romco.colours", {"red": 0xFF0000})
    >>> colours["red"], list(colours), "blue" in colours
    (16711680, ['red'], False)
    """

    def __init__(self, group: str, built_in: Mapping[str, T]) -> None:
        self.group = group
        self._loaded = dict(built_in)
        self._names = tuple(built_in)

    @cached_property
    def _entries(self) -> "dict[str, EntryPoint]":
        from importlib.metadata import entry_points  # takes 30 ms, and few names are not built in

        entries = {entry.name: entry for entry in entry_points(group=self.group)}
        return {name: entries[name] for name in sorted(entries) if name not in self._names}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            entry = self._entries[name]
            try:
                self._loaded[name] = entry.load()
            except (ImportError, AttributeError) as error:
                raise ImportError(
                    f"{name!r} of {self.group} ({entry.value}) cannot be loaded: {error}"
                ) from error
        return self._loaded[name]

    def __contains__(self, name: Any) -> bool:
        return name in self._loaded or name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter((*self._names, *self._entries))

    def __len__(self) -> int:
        return len(self._names) + len(self._entries)


def connect_ray(address: str | None = None) -> tuple[Any, bool]:
    """Return the module ``ray`` with a cluster behind it, and whether this call started it.

    A cluster that the program has joined before is used as it is.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("engine='ray' needs Ray: pip install 'romco[ray]'") from error
    if ray.is_initialized():
        return ray, False
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    where: dict[str, Any] = {"address": address}
    if address is None:
        where = {"include_dashboard": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(log_to_driver=False, configure_logging=False, **where)
    return ray, True
