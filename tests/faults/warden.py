"""The process of a jail: it shuts itself in, imports the library once, and forks for every command; see jail.py.

It is started with mounts of its own where that is allowed, and makes everything but the jail read-only for itself and
those it starts. Commands run as nobody where nobody may read the library, and in any case without privileges.
"""

import atexit
import ctypes
import errno
import gc
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
SHM = "/dev/shm"
_NOBODY = 65534
_MEMORY = 4 << 30  # that a command may take beyond what it begins with, so that none takes the machine's
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MNT_DETACH = 1, 32, 4096, 2
# Flags that a mount has and keeps; in a user namespace those of the system may not be taken off.
_FLAGS = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}


def walk(folder):
    """A folder and all in it; links are not followed."""
    yield folder
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from walk(Path(entry.path))
        else:
            yield Path(entry.path)


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
        for path in walk(Path(request["jail"])):
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
        if isinstance(path, int) or not str(Path.cwd() / os.fsdecode(path)).startswith(jail):
            return
        made += 1
        os.write(pipe, b".")
        if fault is not None and made == fault["at"] + 1:
            if isinstance(fault["what"], int):
                os.kill(os.getpid(), fault["what"])
            else:
                Path(fault["what"][0]).rename(fault["what"][1])

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
    _mount("tmpfs", SHM, "tmpfs", 0, "mode=777")  # semaphores of processes that work together live there
    root.mkdir(parents=True, exist_ok=True)
    _mount(f"/proc/self/fd/{held}", root, None, _MS_BIND)
    os.close(held)
    places = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        places[words[4].encode().decode("unicode_escape")] = words[5].split(",")
    for place, options in places.items():
        if place in (str(root), SHM):
            continue
        flags = sum(_FLAGS.get(option, 0) for option in options)
        with suppress(OSError):  # some are hidden below others; whether any that is seen stayed open is looked at below
            _mount(None, place, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)
    for place in (*places, "/", str(Path.home()), str(CHECKOUT), "/tmp", sys.prefix):
        if place not in (str(root), SHM):
            with suppress(FileNotFoundError, PermissionError):
                if not os.statvfs(place).f_flag & os.ST_RDONLY:
                    raise OSError(errno.EPERM, "it could not be made read-only", place)


def _main():
    connection, root, theirs = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
    connection.set_inheritable(False)
    try:
        if theirs and theirs != mounts_of_this_process():
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


def mounts_of_this_process():
    return str(Path("/proc/self/ns/mnt").readlink())


if __name__ == "__main__":
    _main()
