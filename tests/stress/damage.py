"""Bytes that change by themselves: noticed, or without any effect; never merged into new files."""

from __future__ import annotations

import shutil

import drawing
import operations
from checking import check_folder, contents, difference, look
from reference import Fault, Worlds, text_of

from sghash import Collection, SghashError


def flipped(program, rng):
    """Change a byte of one file of a copy, then verify, compact, copy or write."""
    copy, state = program.root / "flipped", program.worlds.states[0]
    shutil.copytree(program.folder, copy)
    # A writer notes that it has seen all there is; a change cut off by a kill counts from then on.
    Collection.open(copy, writable=True).close()
    check_folder(copy, program.worlds)
    files = [p for p in sorted(copy.rglob("*")) if p.is_file() and p.stat().st_size]
    path = files[rng.integers(len(files))]
    original = path.read_bytes()
    place, bit = int(rng.integers(len(original))), int(rng.integers(8))
    changed = bytearray(original)
    changed[place] ^= 1 << bit
    path.write_bytes(changed)
    names = ["verify", "compact", "compact", "write", "write", "backup"]
    name = str(rng.choice(names))
    where = f"{name} after a flip in byte {place} of {path.name}"
    try:
        state = _ACTIONS[name](copy, state, rng)
        found = _contents(copy)
    except SghashError:
        program.counts["flips noticed"] += 1
    except operations.Skipped:
        program.counts["skipped backup"] += 1
    except Fault:
        raise
    except Exception as error:
        raise Fault("raw error", f"{where}: {text_of(error)}") from error
    else:
        program.counts["flips without effect"] += 1
        if found != state.contents:
            raise Fault("damage not noticed", f"{where}: {difference(found, state.contents)}")
    if name != "write" and path.exists():
        # Nothing was changed on the strength of damaged data.
        path.write_bytes(original)
        if look(copy) != state.contents:
            raise Fault("damage not noticed", f"{where}: not as before when put right")
    shutil.rmtree(copy)
    program.count("flips")


def _contents(folder):
    collection = Collection.open(folder)
    collection.verify()
    return contents(collection)


def _verify(folder, state, rng):
    Collection.open(folder).verify()
    return state


def _compact(folder, state, rng):
    with Collection.open(folder, writable=True) as collection:
        collection.compact()
    return state


def _backup(folder, state, rng):
    target = folder.parent / "copy-of-flipped"
    try:
        operations.backup(Collection.open(folder), target)
        found = look(target)
    finally:
        shutil.rmtree(target, ignore_errors=True)
    if found != state.contents:
        raise Fault("damage not noticed", f"backup: {difference(found, state.contents)}")
    return state


def _write(folder, state, rng):
    """Enough changes for the log to become a segment, and segments to be merged."""
    weights = {name: n for name, n in drawing.WRITES.items() if name in _WRITES}
    worlds = Worlds([state])
    with Collection.open(folder, writable=True) as collection:
        for _ in range(15):
            op = drawing.draw(rng, worlds.states, weights)
            worlds.begin(op)
            worlds.done(operations.change(collection, op))
    return worlds.states[0]


_WRITES = ("add", "add ids", "add keys", "add large", "upsert", "delete", "compact", "reencode")
_ACTIONS = {"verify": _verify, "compact": _compact, "backup": _backup, "write": _write}
