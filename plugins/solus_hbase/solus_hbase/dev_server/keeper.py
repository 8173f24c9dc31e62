"""``python keeper.py COMMAND...`` runs a command that must not outlive whoever started it.

The starter holds the other end of the standard input. When it writes or is gone, however it went, the command is
killed; the keeper ends once the command has. This is not PR_SET_PDEATHSIG because that tells of the end of the
*thread* that started a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading


def _kill_when_told() -> None:
    os.read(0, 1)
    child.kill()


if __name__ == "__main__":
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_kill_when_told, daemon=True).start()
    raise SystemExit(child.wait())
