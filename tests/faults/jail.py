"""A place where a command can do no harm, and where whatever it did is seen.

A `Jailer` starts one process (warden.py) that imports the library once and forks for every command that is to run.
Where the system allows it, that process has mounts of its own, in which everything but the jail is read-only, and what
it forks has no privileges: neither a bug nor a hostile case reaches the home folder, the checkout or `/`. Root is
refused without.

A `Jail` is one case: a home, a working directory and surroundings full of files of "the user", some of them named as
the library might name its own. `Jail.run` looks at everything before and after, and only what was named may differ.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import warden
from warden import SHM, mounts_of_this_process, walk

SCRATCH = ".garnet-*"
_KINDS = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}


class Refused(Exception):
    """There is no jail to be had here."""


class Done(NamedTuple):
    """What became of a command: exit status (negative: the signal that ended it), what it printed, and how many times
    it was about to change the file system.
    """

    status: int
    out: str
    err: str
    steps: int

    @property
    def errors(self):
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


def require_refused(done):
    """That a command ended with one sentence, the last thing it said, and no trace of Python."""
    assert "Traceback" not in done.err, done.err
    assert done.status == 1, done
    assert len(done.errors) == 1, done.err
    assert done.err.rstrip("\n").endswith(done.errors[0]), done.err


def require_done(done):
    assert done.status == 0, done
    assert "Traceback" not in done.err, done.err


@dataclass
class Run:
    """A command that was started, and is waited for once."""

    jailer: "Jailer"
    pid: int
    pipes: list
    readers: list = field(default_factory=list)
    said: list = field(default_factory=lambda: [b"", b"", b""])

    def __post_init__(self):
        for number, pipe in enumerate(self.pipes):
            self.readers.append(threading.Thread(target=self._read, args=(number, pipe), daemon=True))
            self.readers[-1].start()

    def _read(self, number, pipe):
        with os.fdopen(pipe, "rb", buffering=0) as stream:
            while some := stream.read(1 << 16):
                self.said[number] += some

    def kill(self, number):
        """Send a signal to the command, not to what it may have started."""
        os.kill(self.pid, number)

    def reaches(self, phrase, timeout=120):
        """Wait until the command says a phrase on standard error."""
        until = time.monotonic() + timeout
        while phrase.encode() not in self.said[1]:
            assert time.monotonic() < until, f"it never came to {phrase!r}: {self.said[1].decode()}"
            assert self.readers[1].is_alive() or phrase.encode() in self.said[1], self.said[1].decode()
            time.sleep(0.002)

    def wait_until_stopped(self):
        """Wait for a command that a signal is to hold up."""
        for _ in range(10_000):
            if "\nState:\tT" in Path(f"/proc/{self.pid}/status").read_text():
                return
            time.sleep(0.002)
        raise AssertionError("it was not held up")

    def wait(self, timeout=120):
        """The end of the command and of all that it started; after `timeout` seconds they are killed."""
        late = threading.Event()

        def end():
            late.set()
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

        timer = threading.Timer(timeout, end)
        timer.start()
        status = self.jailer.ask(do="wait", pid=self.pid)["status"]
        for reader in self.readers:
            reader.join()
        timer.cancel()
        assert not late.is_set(), f"it did not end within {timeout} s; it said {self.said}"
        out, err = (text.decode("utf-8", "replace") for text in self.said[:2])
        return Done(status, out, err, len(self.said[2]))


class Jailer:
    """The process that runs the commands of many jails.

    Raises:
        Refused: this is root, who could destroy anything, and mounts of one's own are not allowed.
    """

    def __init__(self):
        # Thousands of small files are made and removed, so they are kept in memory where that can be had.
        fast = SHM if os.access(SHM, os.W_OK) and shutil.disk_usage(SHM).free > 4 << 30 else None
        self.root = Path(tempfile.mkdtemp(prefix="garnet-jail-", dir=fast)).resolve()
        self.root.chmod(0o755)
        self._count = 0
        own = ["unshare", "--mount", "--propagation", "private", *([] if os.getuid() == 0 else ["--map-root-user"])]
        try:
            self._start(own)
        except (Refused, FileNotFoundError) as why:
            if os.getuid() == 0:
                _remove(self.root)
                raise Refused(f"as root, a jail needs mounts of its own: {why}") from why
            self._start([])

    def _start(self, own):
        self.mounts = bool(own)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [*own, sys.executable, warden.__file__, str(theirs.fileno()), str(self.root)]
        command.append(mounts_of_this_process() if own else "")
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.root)}
        env["MPLCONFIGDIR"] = str(self.root / "matplotlib")  # it keeps a cache in the home folder, which is its affair
        try:
            with theirs:
                self._process = subprocess.Popen(
                    command, env=env, pass_fds=[theirs.fileno()], start_new_session=True, stdin=subprocess.DEVNULL
                )
            if why := self._answer().get("refused"):
                self._process.wait(30)
                raise Refused(why)
        except BaseException:
            self._socket.close()
            raise

    def close(self):
        self._socket.close()
        self._process.wait(30)
        _remove(self.root)  # mounts of the process are gone with it

    def jail(self):
        self._count += 1
        return Jail(self, self.root / f"case-{self._count}")

    def inside(self, path):
        """A path as the commands see it, with their mounts."""
        return Path(f"/proc/{self._process.pid}/root{path}") if self.mounts else Path(path)

    def ask(self, fds=(), **request):
        socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        return self._answer()

    def _answer(self):
        answer = self._socket.recv(1 << 16)
        if not answer:
            raise Refused(f"the jail's process ended with {self._process.wait(30)}")
        return json.loads(answer)


class Jail:
    """One case: `home`, `work` (where commands run), `surroundings` and `tmp`, under one root."""

    def __init__(self, jailer, root):
        self.jailer, self.root = jailer, root
        self.home, self.work, self.surroundings, self.tmp = (
            root / name for name in ("home", "work", "surroundings", "tmp")
        )
        for folder in (self.home, self.work, self.surroundings, self.tmp):
            folder.mkdir(parents=True)
        lay_bait(self)

    def inside(self, path):
        return self.jailer.inside(self.work / path)

    def mount(self, place, *, size=None, of=None):
        """A small disk of so many bytes at a place or, with `of`, another folder or file there as well."""
        if not self.jailer.mounts:
            raise Refused("mounts are not allowed here")
        answer = self.jailer.ask(do="mount", place=str(place), size=size, of=None if of is None else str(of))
        if answer.get("error"):
            raise Refused(answer["error"])

    def remove(self):
        """Take the jail down, once nothing runs in it."""
        self.jailer.ask(do="unmount", below=str(self.root))
        _remove(self.root)

    def fingerprint(self):
        """Everything in the jail: kind, mode, size, time of change, and contents or what a link points to."""
        top = self.jailer.inside(self.root)
        return {str(path.relative_to(top)): _entry(path) for path in walk(top)}

    def require_unchanged(self, before, besides=(), *, leftover=False):
        """That all is as it was, but for what lies at or below the paths named, which are relative to `work`.

        Args:
            before: what `fingerprint` gave.
            besides: outputs of the command.
            leftover: whether one directory of a run that was killed may lie beside an output or in the scratch folder.
        """
        now = self.fingerprint()
        named = [os.path.relpath(self.work / path, self.root) for path in besides]
        if leftover:
            places = {str(Path(path).parent) for path in named}
            new = [path for path in now.keys() - before.keys() if Path(path).match(SCRATCH)]
            new = [path for path in new if str(Path(path).parent) in places and now[path][0] == "folder"]
            assert len(new) <= 1, f"a run that was killed left {new}"
            named += new
        wrong = []
        for path in sorted(before.keys() | now.keys()):
            if any(path == name or path.startswith(f"{name}/") for name in named):
                continue
            old, new = before.get(path), now.get(path)
            if old != new:
                wrong.append(f"{'new' if old is None else 'gone' if new is None else 'changed'}: {path}")
        assert not wrong, f"files that are no outputs: {wrong}"

    def sweep(self):
        """Remove empty directories of runs: one that is stopped in the instant between making its directory and marking
        it, or between taking off the mark and removing it, leaves one that nobody may claim.
        """
        for path in self.work.glob(SCRATCH):
            with suppress(OSError):
                path.rmdir()

    def start(self, *arguments, limit=None, at=None, fresh=False, program=None, cwd=None):
        """Start `garnet` with arguments.

        Args:
            arguments: of the command.
            limit: bytes that a file may have.
            at: a signal, and how many changes of the file system come before it (killed when about to make the next);
                or two paths instead of the signal, the first of which is then renamed to the second.
            fresh: start a Python of its own, as a shell would.
            program: Python code to run instead of the command.
            cwd: where, if not in `work`.
        """
        pipes = [os.pipe() for _ in range(3)]
        fault = (
            None if at is None else {"what": list(map(str, at[0])) if isinstance(at[0], tuple) else at[0], "at": at[1]}
        )
        answer = self.jailer.ask(
            do="start",
            fds=[write for _, write in pipes],
            arguments=[str(one) for one in arguments],
            cwd=str(cwd or self.work),
            jail=str(self.root),
            env=self._environment(),
            limit=limit,
            fault=fault,
            fresh=fresh,
            program=program,
        )
        for _, write in pipes:
            os.close(write)
        return Run(self.jailer, answer["pid"], [read for read, _ in pipes])

    def run(self, *arguments, outputs=(), leftover=False, timeout=120, **options):
        """Run `garnet` with arguments to its end; nothing but its outputs may have changed."""
        before = self.fingerprint()
        done = self.start(*arguments, **options).wait(timeout)
        self.require_unchanged(before, outputs, leftover=leftover)
        return done

    def _environment(self):
        places = {"XDG_CACHE_HOME": ".cache", "XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}
        places |= {"XDG_STATE_HOME": ".local/state", "GARNET_CACHE": ".cache/garnet"}
        own = {name: str(self.home / place) for name, place in places.items()}
        return {**own, "HOME": str(self.home), "TMPDIR": str(self.tmp), "COLUMNS": "200", "GARNET_DATA": ""}


def lay_bait(jail):
    """Files of the user's everywhere, many with names that the library uses or has used for its own."""
    texts = {
        "home/.bashrc": "alias ll='ls -l'\n",
        "home/Documents/cv.txt": "an only copy\n",
        "surroundings/letters/to-ada.txt": "Dear Ada,\n",
        "surroundings/letters/deep/to-emmy.txt": "Dear Emmy,\n",
        "surroundings/locked/secret.txt": "not to be touched\n",
        "surroundings/.hidden/key": "0123\n",
        "work/thesis.txt": "chapter 1\n",
        "work/clean.npz.tiles/mine.txt": "a folder that happens to be called so\n",
    }
    for path, text in texts.items():
        (jail.root / path).parent.mkdir(parents=True, exist_ok=True)
        (jail.root / path).write_text(text)
    lay_bait_in(jail.work)
    (jail.work / "letters").symlink_to("../surroundings/letters")
    (jail.work / "one-letter.txt").symlink_to("../surroundings/letters/to-ada.txt")
    (jail.surroundings / "locked").chmod(0o555)


def lay_bait_in(folder):
    """A stranger's files in a folder that a command may be told to write to."""
    names = ["work/thesis.txt", "_work/thesis.txt", ".garnet-fake/precious.txt", ".0123456789abcdef.tmp", "tmp-1"]
    for name in [*names, "tiles.json.bak", "lock", "run.txt"]:
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"mine: {name}\n")


def _remove(folder):
    """Remove a jail; links are not followed, and a folder that may not be written to is made one that may."""
    for path in walk(folder):
        if not path.is_symlink() and path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


class _Entry(NamedTuple):
    kind: str
    mode: int
    size: int
    changed: int
    holds: str


def _entry(path):
    found = path.lstat()
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "other")
    holds = {"file": lambda: hashlib.sha256(path.read_bytes()).hexdigest(), "link": lambda: str(path.readlink())}
    # Of a folder it counts what is in it, and not that something came and went.
    size, changed = (0, 0) if kind == "folder" else (found.st_size, found.st_mtime_ns)
    return _Entry(kind, stat.S_IMODE(found.st_mode), size, changed, holds.get(kind, str)())
