"""Possible contents of a disk after a power loss, rebuilt from the calls that disk.c recorded.

Synced file content is present; of later writes, none, all, or a beginning is present. A change of names in a folder is
present from the folder's own sync on; before that, each change may or may not be present.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.faults.disk import Call

#: The files below a folder by path, with their content.
Tree = dict[str, bytes]
Names = dict[int, dict[str, int]]


class Change(NamedTuple):
    """Names added (for a file or folder by its number) or removed (None) in one step, and the folder whose sync persists it."""

    names: tuple[tuple[int, str, int | None], ...]
    lasts_with: int


@dataclass
class Power:
    """A folder as programs see it, and the part of it that survives a power loss."""

    folder: Path
    now: Names = field(default_factory=dict)
    lasting: Names = field(default_factory=dict)
    pending: list[Change] = field(default_factory=list)
    content: dict[int, bytearray] = field(default_factory=dict)
    synced: dict[int, bytes] = field(default_factory=dict)
    _known: dict[tuple[int, int], int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self._take(self.folder)
        self.lasting = {one: dict(names) for one, names in self.now.items()}

    def _take(self, path: Path) -> int:
        """Read the initial content, which is persistent."""
        stat = path.stat()
        number = self._known[stat.st_dev, stat.st_ino] = next(self._numbers)
        if path.is_dir():
            self.now[number] = {one.name: self._take(one) for one in sorted(path.iterdir())}
        else:
            self.synced[number] = path.read_bytes()
            self.content[number] = bytearray(self.synced[number])
        return number

    def play(self, calls: Iterable[Call], data: bytes) -> Iterator[Call]:
        """Repeat the calls in order; yield each after it."""
        at = 0
        for call in calls:
            if call.error:
                continue
            if call.kind == "write":
                self._write(call, data[at : at + call.length])
                at += call.length
            else:
                getattr(self, f"_{call.kind}")(call)
            yield call

    def _write(self, call: Call, what: bytes) -> None:
        content = self.content[self._known[call.inode]]
        content.extend(bytes(max(call.offset - len(content), 0)))
        content[call.offset : call.offset + len(what)] = what

    def _truncate(self, call: Call) -> None:
        content = self.content[self._known[call.inode]]
        content.extend(bytes(max(call.length - len(content), 0)))
        del content[call.length :]

    def _empty(self, call: Call) -> None:
        del self.content[self._known[call.inode]][:]

    def _open(self, call: Call) -> None:
        pass

    def _allocate(self, call: Call) -> None:
        pass

    def _sync(self, call: Call) -> None:
        number = self._known[call.inode]
        if number in self.content:
            self.synced[number] = bytes(self.content[number])
            return
        for change in [one for one in self.pending if one.lasts_with == number]:
            _apply(self.lasting, change)
            self.pending.remove(change)

    def _create(self, call: Call) -> None:
        number = self._known[call.inode] = next(self._numbers)
        self.content[number], self.synced[number] = bytearray(), b""
        self._change(call.path, number)

    def _mkdir(self, call: Call) -> None:
        number = self._known[call.inode] = next(self._numbers)
        self.now[number], self.lasting[number] = {}, {}
        self._change(call.path, number)

    def _unlink(self, call: Call) -> None:
        self._change(call.path, None)

    _rmdir = _unlink

    def _link(self, call: Call) -> None:
        self._change(call.other, self._at(call.path))

    def _rename(self, call: Call) -> None:
        self._change(call.other, self._at(call.path), (*self._place(call.path), None))

    def _exchange(self, call: Call) -> None:
        self._change(call.other, self._at(call.path), (*self._place(call.path), self._at(call.other)))

    def _change(self, path: str, number: int | None, *more: tuple[int, str, int | None]) -> None:
        above, name = self._place(path)
        change = Change((*more, (above, name, number)), above)
        _apply(self.now, change)
        self.pending.append(change)

    def _place(self, path: str) -> tuple[int, str]:
        above, name = os.path.split(path)
        return self._at(above), name

    def _at(self, path: str) -> int:
        number = 0
        for name in Path(path).relative_to(self.folder).parts:
            number = self.now[number][name]
        return number

    def seen(self, place: str) -> Tree:
        """Return the files at a place below the folder, as programs see them."""
        return _files(self.now, {one: bytes(what) for one, what in self.content.items()}, place)

    def left(self, place: str, dice: random.Random) -> Tree:
        """Return possible versions of the files at a place after a power loss now."""
        names = {one: dict(each) for one, each in self.lasting.items()}
        likely = dice.choice((0.0, 0.5, 1.0))
        for change in self.pending:
            if dice.random() < likely:
                _apply(names, change)
        kept = dict(self.synced)
        for number, what in self.content.items():
            if what != kept[number]:
                kept[number] = dice.choice((kept[number], bytes(what), bytes(what[: len(what) // 2])))
        return _files(names, kept, place)


def _apply(names: Names, change: Change) -> None:
    for above, name, number in change.names:
        if number is None:
            names[above].pop(name, None)
        else:
            names[above][name] = number


def _files(names: Names, content: dict[int, bytes], place: str) -> Tree:
    at = 0
    for name in Path(place).parts:
        found = names.get(at, {}).get(name)
        if found is None:
            return {}
        at = found
    if at in content:
        return {"": content[at]}
    return dict(_below(names, content, at, ""))


def _below(names: Names, content: dict[int, bytes], at: int, path: str) -> Iterator[tuple[str, bytes]]:
    for name, one in sorted(names[at].items()):
        if one in content:
            yield f"{path}{name}", content[one]
        else:
            yield from _below(names, content, one, f"{path}{name}/")
