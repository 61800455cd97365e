"""Atomic writes, working folders of killed runs, file modes and the umask."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpucost import disk

AT_WORK = """
import sys, time
from pathlib import Path
from gpucost import disk
with disk.workplace(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print(folder, flush=True)
    time.sleep(60)
"""


def test_folder_of_a_killed_run_is_removed_and_a_live_one_stays(tmp_path: Path) -> None:
    runs = [
        subprocess.Popen([sys.executable, "-c", AT_WORK, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    dead, alive = (Path(run.stdout.readline().strip()) for run in runs if run.stdout)
    runs[0].send_signal(signal.SIGKILL)
    runs[0].wait()
    (tmp_path / ".gpucost-run-link").symlink_to(alive)
    with disk.workplace(tmp_path) as own:
        assert own.is_dir()
        assert not dead.exists()
    assert not own.exists()
    assert (alive / "half").read_text() == "half"
    runs[1].kill()
    runs[1].wait()


def test_atomic_write_replaces_the_whole_file_with_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "a"

    def fail() -> None:
        with disk.atomic_write(target) as part:
            part.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
    mask = os.umask(0o022)
    try:
        for mode, expected in ((0o666, 0o644), (disk.PRIVATE, 0o600)):
            # regardless of the umask that an open store sets for its own files
            with disk.private(disk.PRIVATE), disk.atomic_write(target, mode) as part:
                part.write_text("whole")
            assert (target.read_text(), target.stat().st_mode & 0o777) == ("whole", expected)
            target.unlink()
    finally:
        os.umask(mask)
    target.write_text("there")
    target.chmod(0o640)
    with disk.atomic_write(target) as part:
        part.write_text("new")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)


def test_umask_is_restored_after_the_last_thread() -> None:
    mask = os.umask(0o022)
    try:
        turns = threading.Barrier(2)

        def work(first: bool) -> None:
            if not first:
                turns.wait()
            with disk.private(disk.PRIVATE):
                if first:
                    turns.wait()
                turns.wait()
            turns.wait()

        threads = [threading.Thread(target=work, args=(first,)) for first in (True, False)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(mask)
