#!/usr/bin/env python3
"""Unpacks the runs of a measured host: unpack.py ARCHIVE DIRECTORY.

The archive comes from a machine that is not trusted. Of it only the three plain files of a run are
taken, runs/ID/{manifest.json,samples.jsonl,ended.json}, without owner and mode. They are written to
a fresh directory, from which each run is renamed to DIRECTORY/ID. An archive with anything but plain
files and directories below runs/, or beyond the bounds, is refused whole, in one line, status 2.
"""

import os
import re
import resource
import shutil
import sys
import tarfile
import tempfile

WANTED = {"manifest.json": 16 << 20, "samples.jsonl": 1 << 30, "ended.json": 1 << 20}
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
# Of the archive, of all that it expands to, of memory, and of its members.
MOST_ARCHIVE_BYTES, MOST_BYTES, MOST_MEMORY_BYTES, MOST_MEMBERS = 1 << 30, 8 << 30, 256 << 20, 20_000


class Refused(Exception):
    """Why an archive is not unpacked."""


def place(member):
    """The run and the file that a member is; none for one that is not wanted."""
    words = member.name.split("/")
    if words[0] != "runs" or any(word in ("", ".", "..") for word in words):
        raise Refused(f"{member.name[:200]!r} is not below runs/")
    if not (member.isreg() or member.isdir()):
        raise Refused(f"{member.name[:200]!r} is no plain file")
    is_wanted = member.isreg() and len(words) == 3 and words[2] in WANTED
    if not is_wanted:
        return None
    if not ID.fullmatch(words[1]):
        raise Refused(f"{words[1][:200]!r} is no name of a run")
    return words[1], words[2]


def take(archive, fresh):
    """Writes the wanted files of an archive below a fresh directory."""
    if os.stat(archive).st_size > MOST_ARCHIVE_BYTES:
        raise Refused(f"it has more than {MOST_ARCHIVE_BYTES} bytes")
    total = 0
    with tarfile.open(archive, "r|gz") as members:
        for number, member in enumerate(members, 1):
            total += member.size
            if number > MOST_MEMBERS or total > MOST_BYTES:
                raise Refused(f"it has more than {MOST_MEMBERS} members or {MOST_BYTES} bytes")
            found = place(member)
            if found is None:
                continue
            run, name = found
            if member.size > WANTED[name]:
                raise Refused(f"{member.name!r} has more than {WANTED[name]} bytes")
            os.makedirs(os.path.join(fresh, run), exist_ok=True)
            with open(os.path.join(fresh, run, name), "xb") as out:
                shutil.copyfileobj(members.extractfile(member), out, 1 << 20)


def unpack(archive, directory):
    """Takes the runs of an archive into a directory; a run that is there already is refused."""
    fresh = tempfile.mkdtemp(prefix=".unpack.", dir=directory)
    try:
        take(archive, fresh)
        runs = sorted(os.listdir(fresh))
        there = [run for run in runs if os.path.lexists(os.path.join(directory, run))]
        if there:
            raise Refused(f"{there[0]} is in {directory} already")
        for run in runs:
            os.rename(os.path.join(fresh, run), os.path.join(directory, run))
    finally:
        shutil.rmtree(fresh)


def main():
    archive, directory = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    try:
        unpack(archive, directory)
    except (Refused, OSError, EOFError, MemoryError, ValueError, tarfile.TarError) as why:
        print(f"{archive}: not unpacked: {why or type(why).__name__}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
