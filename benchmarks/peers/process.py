"""A peer's worker process: a line of JSON goes in, a line comes back."""

import json
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path


class Crash(Exception):
    """The process has ended, or has not answered in time."""


class Worker:
    """A process that is stopped whenever it has nothing to answer: threads that would wait actively
    do not disturb the others."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path, timeout: float):
        """The first line that it says by itself is its greeting."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                bufsize=0,
            )
        self.log = log
        self.greeting = self._answer(timeout)

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, request: dict, timeout: float) -> dict:
        """The answer, or a Crash after which the process is gone."""
        try:
            self.process.send_signal(signal.SIGCONT)
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
        except OSError:
            self.kill()
            raise Crash(f"it has ended; see {self.log}") from None
        return self._answer(timeout)

    def _answer(self, timeout: float) -> dict:
        end = time.monotonic() + timeout
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    self.kill()
                    raise Crash(f"no answer in {timeout:.0f} s")
                part = os.read(self.process.stdout.fileno(), 1 << 16)
                if not part:
                    self.kill()
                    code = self.process.returncode
                    raise Crash(f"it has ended with {code}; see {self.log}")
                line += part
        self.process.send_signal(signal.SIGSTOP)
        try:
            return json.loads(line)
        except ValueError:
            self.kill()
            raise Crash(f"it says {line[:80]!r}") from None

    def kill(self):
        """Ends the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
