"""Completion in real shells on a terminal, installed as by users: commands, options, and values from the store."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from gpucost.store.connection import Store
from tests.golden.report_fleet import stored
from tests.programs import require
from tests.text_tables import words

pytestmark = [pytest.mark.services, pytest.mark.slow]

store = stored(hours=60, team="vision lab")

# the text before Tab and the completed line; each has one completion
COMMANDS = """
gpucost rep                      -> gpucost report
gpucost export cha               -> gpucost export chart
gpucost report --tea             -> gpucost report --team
gpucost prices H100 --reg        -> gpucost prices H100 --region
gpucost report --format mark     -> gpucost report --format markdown
gpucost report --by team,nam     -> gpucost report --by team,namespace
gpucost report --namespace nlp   -> gpucost report --namespace nlp
"""
VALUES = """
gpucost report --namespace nlp   -> gpucost report --namespace nlp-eval
gpucost waste --team uni -q --cluster pr -> gpucost waste --team uni -q --cluster prod
gpucost report --month 20        -> gpucost report --month 2026-10
"""


class Terminal:
    """An interactive shell on its own terminal with an empty home."""

    def __init__(self, shell: str, home: Path) -> None:
        path = f"{Path(sys.executable).parent}:{os.defpath}"
        environment = words(f"HOME={home} PATH={path} TERM=xterm LC_ALL=C.UTF-8 SHELL=/usr/bin/{shell}")
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(home)
            os.execvpe(shell, [shell, "-i"], environment)  # noqa: S606
        self.run("true")

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.terminal)
        os.waitpid(self.pid, 0)

    def run(self, line: str) -> str:
        """Return the output of `line`."""
        self._send(f"{line}\r")
        return self._until(r"(.*)", "")

    def completed(self, line: str) -> str:
        """Return the line after Tab: it is printed between two marks, not run."""
        self._send(f"{line}\t")
        self._idle()
        self._send("\x01echo '=@' \x05 '@='\r")  # cursor to the beginning, and to the end
        return self._until(r"=@ (gpucost.*?) ?@=", "").rstrip()

    def _send(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def _read(self, seconds: float) -> str:
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        return os.read(self.terminal, 65536).decode(errors="replace") if ready else ""

    def _idle(self) -> None:
        """Wait until the output pauses."""
        while self._read(1.0):
            pass

    def _until(self, pattern: str, text: str) -> str:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            part = self._read(1.0)
            text += part
            plain = re.sub(r"\x1b(\[[0-9;?>=]*[a-zA-Z]|\][^\x07]*\x07|[=>]|\([AB0])|[\r\x0f]", "", text)
            # a pause ends the output of a command; a marked line is complete
            if (not part or pattern != "(.*)") and (found := re.findall(rf"^{pattern}$", plain, re.M)):
                return "\n".join(found) if pattern == "(.*)" else str(found[-1])
        pytest.fail(f"no answer in {text!r}")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_options_and_values(shell: str, tmp_path: Path, store: Path) -> None:
    require(shell, package=shell)
    (tmp_path / ".zshrc").touch()  # without it, zsh starts with questions
    with closing(Terminal(shell, tmp_path)) as terminal:
        assert "completion installed" in terminal.run("gpucost --install-completion")
    with closing(Terminal(shell, tmp_path)) as terminal:

        def check(table: str) -> None:
            for line in table.strip().splitlines():
                typed, expected = map(str.strip, line.split("->"))
                assert terminal.completed(typed) == expected

        if shell == "zsh":
            terminal.completed("gpucost ")  # the first Tab in a new zsh only loads the function (see README)
        check(COMMANDS)  # without a store, its values are missing
        (tmp_path / "gpucost.toml").write_text(f'store = "{store}"\n')
        check(VALUES)
        # while another process writes, completion neither waits nor prints
        with Store(store).write():
            check(COMMANDS.splitlines()[-1])
        with duckdb.connect(str(store)) as con:  # no process has it open
            assert con.execute("SELECT count(*) > 0 FROM nodes").fetchone() == (True,)
