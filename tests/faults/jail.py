"""A place where a command can do no harm, and where whatever it did is seen.

A `Jailer` starts one process that imports the library once and forks for every command that is to run. Where the system
allows it, that process has mounts of its own, in which everything but the jail is read-only, and what it forks has no
privileges: neither a bug nor a hostile case reaches the home folder, the checkout or `/`. Root is refused without.

A `Jail` is one case: a home, a working directory and surroundings full of files of "the user", some of them named as the
library might name its own. `Jail.run` looks at everything before and after, and only what was named may differ.
"""

import atexit
import ctypes
import errno
import gc
import hashlib
import json
import os
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
SCRATCH = ".garnet-*"
_NOBODY = 65534
_SHM = "/dev/shm"
_MEMORY = 4 << 30  # that a command may take beyond what it begins with, so that none takes the machine's
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MNT_DETACH = 1, 32, 4096, 2
# Flags that a mount has and keeps; in a user namespace those of the system may not be taken off.
_FLAGS = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}


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
        with open(pipe, "rb", buffering=0) as stream:
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
        fast = _SHM if os.access(_SHM, os.W_OK) and shutil.disk_usage(_SHM).free > 4 << 30 else None
        self.root = Path(tempfile.mkdtemp(prefix="garnet-jail-", dir=fast)).resolve()
        self.root.chmod(0o755)
        self._count = 0
        own = ["unshare", "--mount", "--propagation", "private", *([] if os.getuid() == 0 else ["--map-root-user"])]
        try:
            self.mounts = subprocess.run([*own, "true"], capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            self.mounts = False
        if not self.mounts and os.getuid() == 0:
            shutil.rmtree(self.root)
            raise Refused("as root, the campaign needs mounts of its own, and this system allows none")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [*(own if self.mounts else []), sys.executable, __file__]
        command += [str(theirs.fileno()), str(self.root), _mounts_of_this_process() if self.mounts else ""]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(self.root)}
        env["MPLCONFIGDIR"] = str(self.root / "matplotlib")  # it keeps a cache in the home folder, which is its affair
        self._process = subprocess.Popen(
            command, env=env, pass_fds=[theirs.fileno()], start_new_session=True, stdin=subprocess.DEVNULL
        )
        theirs.close()
        answer = self._answer()
        if "refused" in answer:
            self.close()
            raise Refused(answer["refused"])

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
        return {str(path.relative_to(top)): _entry(path) for path in _walk(top)}

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
        parents = {str(parent) for path in named for parent in Path(path).parents}
        wrong = []
        for path in sorted(before.keys() | now.keys()):
            if any(path == name or path.startswith(f"{name}/") for name in named):
                continue
            old, new = before.get(path), now.get(path)
            if old is not None and new is not None and path in parents:
                old, new = old._replace(changed=0), new._replace(changed=0)
            if old != new:
                wrong.append(f"{'new' if old is None else 'gone' if new is None else 'changed'}: {path}")
        assert not wrong, f"files that are no outputs: {wrong}"

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
        fault = None if at is None else {"what": list(map(str, at[0])) if isinstance(at[0], tuple) else at[0], "at": at[1]}
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
    for path in _walk(folder):
        if not path.is_symlink() and path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


class _Entry(NamedTuple):
    kind: str
    mode: int
    size: int
    changed: int
    holds: str


def _walk(folder):
    yield folder
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path))
        else:
            yield Path(entry.path)


def _entry(path):
    found = path.lstat()
    kind = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}.get(stat.S_IFMT(found.st_mode), "other")
    holds = path.readlink() if kind == "link" else hashlib.sha256(path.read_bytes()).hexdigest() if kind == "file" else ""
    return _Entry(kind, stat.S_IMODE(found.st_mode), 0 if kind == "folder" else found.st_size, found.st_mtime_ns, str(holds))


# What follows runs in the jail's own process, which imports the library once and forks for each command.


def _serve(connection, root):
    """Answer requests until nobody asks any more; in a process that was forked for a command, what that is to run."""
    user = _user(root)
    _import_everything()
    gc.freeze()
    connection.send(b"{}")
    mounted = []
    while True:
        message, fds, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not message:
            return None
        request = json.loads(message)
        match request["do"]:
            case "start":
                if not (pid := os.fork()):
                    connection.close()
                    return _prepare(request, fds, user)
                for one in fds:
                    os.close(one)
                answer = {"pid": pid}
            case "wait":
                answer = {"status": os.waitstatus_to_exitcode(os.waitpid(request["pid"], 0)[1])}
            case "mount":
                answer = {"error": _attach(request["place"], request["size"], request["of"])}
                mounted.append(request["place"])
            case "unmount":
                answer = {}
                for place in [one for one in mounted if one.startswith(request["below"] + "/")]:
                    ctypes.CDLL(None).umount2(os.fsencode(place), _MNT_DETACH)
                    mounted.remove(place)
        connection.send(json.dumps(answer).encode())


def _prepare(request, fds, user):
    """Make the process that was forked one that a shell might have started in the jail, without privileges."""
    os.setsid()
    for number, one in enumerate(fds[:2], 1):
        os.dup2(one, number)
        os.close(one)
    os.environ.update(request["env"])
    os.environ.pop("PYTHONWARNINGS", None)
    tempfile.tempdir = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if user:
        for path in _walk(Path(request["jail"])):
            with suppress(OSError):
                os.chown(path, user, user, follow_symlinks=False)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _drop_privileges()
    os.chdir(request["cwd"])
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    most = pages * resource.getpagesize() + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if request["limit"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["limit"], request["limit"]))
    if request["fresh"]:
        os.close(fds[2])
        os.execv(sys.executable, [sys.executable, "-m", "garnet", *request["arguments"]])
    _count_changes(fds[2], request["jail"], request["fault"])
    return request


def _count_changes(pipe, jail, fault):
    """Write a byte before every change of the file system in the jail, and do at one of them what the case wants."""
    made = 0

    def see(event, values):
        nonlocal made
        if event == "open":
            path, _, flags = values
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event in _CHANGES:
            path = values[0]
        else:
            return
        if isinstance(path, int) or not os.path.abspath(os.fsdecode(path)).startswith(jail):
            return
        made += 1
        os.write(pipe, b".")
        if fault is not None and made == fault["at"] + 1:
            if isinstance(fault["what"], int):
                os.kill(os.getpid(), fault["what"])
            else:
                os.rename(*fault["what"])

    sys.addaudithook(see)


def _user(root):
    """The user that commands run as, if this is root: nobody, if nobody may read the interpreter and the library."""
    if os.getuid() != 0 or Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        return None
    if not (pid := os.fork()):
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        seen = all(os.access(path, os.R_OK | os.X_OK) for path in (sys.executable, sys.prefix, CHECKOUT / "src", root))
        os._exit(0 if seen else 1)
    return _NOBODY if os.waitpid(pid, 0)[1] == 0 else None


def _drop_privileges():
    """No capabilities, now or later: files are read and written as their permissions say, and nothing is mounted."""
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing):
        os._exit(125)


def _import_everything():
    import importlib
    import pkgutil

    import garnet

    for module in pkgutil.walk_packages(garnet.__path__, "garnet."):
        if not module.name.endswith(("kernels", "__main__")):
            importlib.import_module(module.name)


def _mount(source, place, kind, flags, data=None):
    libc = ctypes.CDLL(None, use_errno=True)
    values = (None if one is None else os.fsencode(one) for one in (source, place, kind))
    if libc.mount(*values, ctypes.c_ulong(flags), None if data is None else data.encode()):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(place))


def _attach(place, size, of):
    try:
        if of is not None:
            _mount(of, place, None, _MS_BIND)
        else:
            _mount("tmpfs", place, "tmpfs", 0, f"size={size},mode=777")
    except OSError as error:
        return str(error)
    return None


def _seal(root):
    """Make everything but the jail read-only, for this process and those it starts."""
    held = os.open(root, os.O_PATH | os.O_DIRECTORY)
    _mount("tmpfs", _SHM, "tmpfs", 0, "mode=777")  # semaphores of processes that work together live there
    root.mkdir(parents=True, exist_ok=True)
    _mount(f"/proc/self/fd/{held}", root, None, _MS_BIND)
    os.close(held)
    places = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        places[words[4].encode().decode("unicode_escape")] = words[5].split(",")
    for place, options in places.items():
        if place in (str(root), _SHM):
            continue
        flags = sum(_FLAGS.get(option, 0) for option in options)
        with suppress(OSError):  # some are hidden below others; whether any that is seen stayed open is looked at below
            _mount(None, place, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)
    for place in (*places, "/", str(Path.home()), str(CHECKOUT), "/tmp", sys.prefix):
        if place not in (str(root), _SHM):
            with suppress(FileNotFoundError, PermissionError):
                if not os.statvfs(place).f_flag & os.ST_RDONLY:
                    raise OSError(errno.EPERM, "it could not be made read-only", place)


def _main():
    connection, root, theirs = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
    connection.set_inheritable(False)
    try:
        if theirs and theirs != _mounts_of_this_process():
            _seal(root)
        elif os.getuid() == 0:
            raise OSError(errno.EPERM, "root has no mounts of its own")
    except OSError as error:
        connection.send(json.dumps({"refused": f"the jail cannot be closed: {error}"}).encode())
        return
    request = _serve(connection, root)
    if request is None:
        return
    sys.argv = ["garnet", *request["arguments"]]
    status = 0
    try:
        if request["program"] is not None:
            exec(compile(request["program"], "<program>", "exec"), {"__name__": "__program__"})
        else:
            from garnet.cli import main

            main()
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as error:
        traceback.print_exc()
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
    # What an interpreter does at its end, less the second that it takes to take all modules apart.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _mounts_of_this_process():
    return os.readlink("/proc/self/ns/mnt")


if __name__ == "__main__":
    _main()
