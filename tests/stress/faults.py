"""Disks that refuse, stop or tear, and Ctrl-C: what can go wrong inside one process.

All of it is installed in a forked child and never taken out. A regime acts only between `arm` and
`disarm`, and only on files below its root; `fired` counts how often it has acted.
"""

from __future__ import annotations

import builtins
import errno
import io
import mmap
import os
import signal

import safetensors
import safetensors.numpy

PATHS = ("open", "unlink", "remove", "rmdir", "mkdir", "replace", "rename", "link", "symlink",
         "truncate", "listdir", "scandir")  # fmt: skip
HANDLES = ("write", "fsync", "fdatasync", "ftruncate", "lseek", "read", "pread", "pwrite",
           "sendfile", "copy_file_range", "posix_fallocate")  # fmt: skip
READS = {"open", "read", "pread", "mmap", "listdir", "scandir", "lseek"}
CODES = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE)
_real = {name: getattr(os, name) for name in (*PATHS, *HANDLES) if hasattr(os, name)}
_real_open, _real_mmap, _kill = builtins.open, mmap.mmap, os.kill


class Quiet:
    """Nothing goes wrong."""

    kind, fired = "plain", 0

    def arm(self):
        pass

    def disarm(self):
        pass


class Disk:
    """Every call that touches a file below `root` is counted; subclasses let some go wrong."""

    def __init__(self, root):
        self.root, self.armed, self.count, self.fired = os.path.realpath(root), False, 0, 0

    def arm(self):
        self.armed = True

    def disarm(self):
        self.armed = False

    def before(self, name, data):
        """Called before each call with its name and, for a write, the handle and the bytes."""

    def after(self, name):
        """Called after each call that succeeded."""

    def install(self):
        """Put this in the way of all file functions of Python."""
        for name, real in _real.items():
            wrapped = self._wrap(name, real)
            for group in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
                if real in group:
                    group.add(wrapped)
            setattr(os, name, wrapped)
        builtins.open = io.open = self._open
        mmap.mmap = self._wrap("mmap", _real_mmap)
        for name, kind in (("save_file", "write"), ("load_file", "read")):
            real = getattr(safetensors.numpy, name)
            setattr(safetensors.numpy, name, self._wrap_model(kind, real))

    def call(self, name, real, arguments, options, data=None):
        """One counted call."""
        self.count += 1
        self.before(name, data)
        result = real(*arguments, **options)
        self.after(name)
        return result

    def _wrap(self, name, real):
        def call(*arguments, **options):
            if not self.armed or not self.concerns(arguments, options):
                return real(*arguments, **options)
            data = arguments[:2] if name == "write" else None
            return self.call(name, real, arguments, options, data)

        return call

    def _wrap_model(self, kind, real):
        def call(*arguments, **options):
            path = arguments[1] if kind == "write" else arguments[0]
            if not self.armed or not self.concerns([path], {}):
                return real(*arguments, **options)
            try:
                return self.call(kind, real, arguments, options)
            except OSError as error:
                # This library has its own way to say that a disk refused.
                raise safetensors.SafetensorError(f"I/O error: {error}") from None

        return call

    def concerns(self, arguments, options):
        """Whether a path or handle lies below the root."""
        first = arguments[0] if arguments else "."
        try:
            if isinstance(first, int):
                path = os.readlink(f"/proc/self/fd/{first}")
            else:
                path = os.fsdecode(first)
                if options.get("dir_fd") is not None:
                    path = os.path.join(os.readlink(f"/proc/self/fd/{options['dir_fd']}"), path)
                elif not path.startswith("/"):
                    path = os.path.join(os.getcwd(), path)
        except (OSError, TypeError):
            return False
        return path.startswith(self.root)

    def _open(self, file, mode="r", buffering=-1, *arguments, **options):
        if not self.armed or not self.concerns([file], {}):
            return _real_open(file, mode, buffering, *arguments, **options)
        raw = self.call("open", _File, (file, mode.replace("b", "").replace("t", "")), {})
        raw.disk = self
        kind = io.BufferedRandom if "+" in mode else io.BufferedWriter
        if "r" in mode and "+" not in mode:
            kind = io.BufferedReader
        stream = raw if buffering == 0 else kind(raw)
        return stream if "b" in mode else io.TextIOWrapper(stream, *arguments, **options)


class _File(io.FileIO):
    """A file whose reads and writes are counted."""

    disk = None

    def readinto(self, buffer):
        return self._counted("read", super().readinto, buffer)

    def readall(self):
        return self._counted("read", super().readall)

    def write(self, data):
        return self._counted("write", super().write, data)

    def _counted(self, name, real, *arguments):
        if self.disk is None or not self.disk.armed:
            return real(*arguments)
        data = (self.fileno(), arguments[0]) if name == "write" else None
        return self.disk.call(name, real, arguments, {}, data)


class Errors(Disk):
    """Errors of the system: one, a few in a row, or for so long that the recovery fails too."""

    kind = "errors"

    def __init__(self, root, rng):
        super().__init__(root)
        self.rng = rng
        self._plan()

    def _plan(self):
        rng = self.rng
        groups = [set(_real) | {"mmap"}, {"write", "pwrite"}, {"fsync", "fdatasync"}, {"replace"},
                  {"open"}, {"unlink", "rmdir"}, {"ftruncate", "lseek"}, READS,
                  {"read", "mmap"}]  # fmt: skip
        self.names = groups[rng.choice(len(groups), p=[0.3, 0.12, 0.12, 0.08, 0.1, 0.04, 0.08,
                                                       0.08, 0.08])]  # fmt: skip
        self.code = int(rng.choice(CODES))
        self.left = int(rng.choice([1, 1, 1, 2, 3, 5, 12, 40]))
        rare = len(self.names) <= 2
        self.wait = int(rng.integers(0, 12 if rare else 60))

    def before(self, name, data):
        if name not in self.names:
            return
        if self.wait > 0:
            self.wait -= 1
            return
        self.left -= 1
        self.fired += 1
        code = self.code
        if self.left <= 0:
            self._plan()
        raise OSError(code, os.strerror(code))


class Stop(Disk):
    """The process ends at disk call number `n`: before it, after it, or in the midst of a write."""

    kind = "stops"

    def __init__(self, root, n, where):
        super().__init__(root)
        self.n, self.where = n, where

    def before(self, name, data):
        if self.count < self.n:
            return
        if self.where == "torn":
            if data is None:
                return  # wait for the next write
            handle, view = data[0], memoryview(data[1]).cast("B")
            _real["write"](handle, view[: len(view) // 2])
            self._end()
        elif self.where == "before":
            self._end()

    def after(self, name):
        if self.count >= self.n and self.where == "after":
            self._end()

    def _end(self):
        _kill(os.getpid(), signal.SIGKILL)
        signal.pause()
