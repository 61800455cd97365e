"""A disk that fails at one call, or only records the calls, below one folder: see disk.c."""

from __future__ import annotations

import errno
import os
import shlex
import struct
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.programs import require

ROOT = Path(__file__).parents[2]


def built(folder: Path) -> Path:
    """Build the library that intercepts a program's disk calls. Skip without a C compiler; fail under CI=true."""
    require("cc", package="gcc libc6-dev")
    library = folder / "disk.so"
    words = f"cc -shared -fPIC -O1 -o {library} {Path(__file__).with_name('disk.c')} -ldl -lpthread"
    subprocess.run(shlex.split(words), check=True)
    return library


class Fault(NamedTuple):
    """The failure of a call: with `error`, once or as long as `lasts`; without an error, the folder vanishes."""

    name: str
    error: int
    lasts: str


FAULTS = (
    Fault("the disk is full", errno.ENOSPC, "room"),
    Fault("an input/output error", errno.EIO, "no"),
    Fault("the disk is read-only", errno.EROFS, "all"),
    Fault("the folder is gone", 0, "no"),
)


class Call(NamedTuple):
    """One call that changes files, with `error` if it failed."""

    number: int
    kind: str
    inode: tuple[int, int]
    offset: int
    length: int
    error: int
    path: str
    other: str


@dataclass(frozen=True)
class Ended:
    """The end of a command."""

    code: int
    out: str
    err: str

    @property
    def is_said(self) -> bool:
        """Return whether it failed with one message that users understand."""
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        return self.code == 1 and len(errors) == 1 and self.is_plain

    @property
    def is_plain(self) -> bool:
        return "Traceback" not in self.err and "unexpected " not in self.err


def start(
    folder: Path, words: tuple[str, ...], environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start gpucost in a folder that also contains its temporary files."""
    (folder / "tmp").mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUCOST_")}
    known = (
        kept | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp"), "NO_COLOR": "1"} | (environment or {})
    )
    command = [sys.executable, "-m", "gpucost", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=known
    )


def run(folder: Path, words: tuple[str, ...], environment: dict[str, str] | None = None) -> Ended:
    """Run gpucost in a folder to its end."""
    return ended(start(folder, words, environment))


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for a command and return its end."""
    texts = process.communicate(timeout=300)
    return Ended(process.returncode, *texts)


@dataclass(frozen=True)
class Disk:
    """The library and the path of its records."""

    library: Path
    notes: Path

    def watch(
        self, folder: Path, at: int = 0, fault: Fault = FAULTS[1], *, contents: bool = False
    ) -> dict[str, str]:
        """Return the environment that records a program's calls below `folder` and makes call `at` fail."""
        for name in ("log", "data"):
            (self.notes / name).unlink(missing_ok=True)
        away = {} if fault.error else {"FAULTS_AWAY": str(away_from(folder))}
        return {
            "LD_PRELOAD": str(self.library), "FAULTS_FOLDER": str(folder.resolve()), "FAULTS_AT": str(at),
            "FAULTS_ERRNO": str(fault.error), "FAULTS_LASTS": fault.lasts, "FAULTS_LOG": str(self.notes / "log"),
            **({"FAULTS_DATA": str(self.notes / "data")} if contents else {}), **away,
        }  # fmt: skip

    def clock(self, moment: datetime) -> dict[str, str]:
        """Return the environment that sets a program's wall clock to `now` and follows `set_clock` from then on."""
        self.set_clock(moment)
        return {"LD_PRELOAD": str(self.library), "FAULTS_CLOCK": str(self.notes / "clock")}

    def set_clock(self, moment: datetime) -> None:
        """Set the clock of programs in that environment; it jumps."""
        with os.fdopen(os.open(self.notes / "clock", os.O_RDWR | os.O_CREAT), "r+b") as file:
            file.write(struct.pack("=q", int((moment - datetime.now(UTC)).total_seconds() * 1e9)))

    def calls(self) -> list[Call]:
        """Return the recorded calls in order."""
        log = self.notes / "log"
        found = []
        for line in log.read_text(errors="surrogateescape").splitlines() if log.exists() else []:
            number, kind, inode, device, offset, length, error, path, other = line.split("\t")
            found.append(
                Call(
                    int(number),
                    kind,
                    (int(device), int(inode)),
                    int(offset),
                    int(length),
                    int(error),
                    path,
                    other,
                )
            )
        return found


def away_from(folder: Path) -> Path:
    """Return the new place of a vanished folder."""
    return folder.with_name(f"{folder.name}-away")
