#!/usr/bin/env python3
"""Tries what unpacks the runs of measured hosts on an honest archive and on hostile ones."""

import gzip
import io
import os
import stat
import subprocess
import sys
import tarfile
import tempfile

UNPACK = os.path.join(os.path.dirname(__file__), "../deploy/ansible/roles/bytecost/files/unpack.py")


def member(name, data=b"{}", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def link(name, to, kind=tarfile.SYMTYPE):
    return member(name, b"", type=kind, linkname=to)


def pax_bomb():
    """A header of 512 MiB, which a reader would hold in memory."""
    info = tarfile.TarInfo("runs/r/manifest.json")
    info.type, info.size = tarfile.XHDTYPE, 512 << 20
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(512 << 20)


def archive(path, members):
    with tarfile.open(path, "w:gz") as out:
        for info, data in members:
            out.addfile(info, io.BytesIO(data))


def unpacked(write):
    """The status, the line, and what is in the directory afterwards."""
    with tempfile.TemporaryDirectory() as dir:
        path, runs = os.path.join(dir, "runs.tar.gz"), os.path.join(dir, "host")
        os.mkdir(runs)
        os.mkdir(os.path.join(runs, "there"))
        write(path)
        ended = subprocess.run([sys.executable, UNPACK, path, runs], capture_output=True, text=True)
        found = {}
        for at, _, names in os.walk(dir):
            for name in names:
                file = os.path.join(at, name)
                found[os.path.relpath(file, dir)] = stat.S_IMODE(os.lstat(file).st_mode)
        del found["runs.tar.gz"]
        assert sorted(os.listdir(runs))[0:1] != [".unpack"], os.listdir(runs)
        assert not [name for name in os.listdir(runs) if name.startswith(".")], os.listdir(runs)
        return ended.returncode, ended.stderr, found


os.umask(0o022)
run = [member("runs/r/" + name, mode=0o6777, uid=0) for name in ("manifest.json", "samples.jsonl", "ended.json")]
directory = member("runs", b"", type=tarfile.DIRTYPE)
status, line, found = unpacked(lambda path: archive(path, [directory, *run, member("runs/r/report.html")]))
expected = {f"host/r/{name}": 0o644 for name in ("manifest.json", "samples.jsonl", "ended.json")}
assert (status, line, found) == (0, "", expected), (status, line, found)

HOSTILE = {
    "a link for a run": [link("runs/r", "/etc"), *run],
    "a link for a file": [link("runs/r/manifest.json", "/etc/passwd")],
    "a hard link": [link("runs/r/manifest.json", "/etc/passwd", tarfile.LNKTYPE)],
    "a device": [member("runs/r/manifest.json", b"", type=tarfile.CHRTYPE)],
    "a pipe": [member("runs/r/manifest.json", b"", type=tarfile.FIFOTYPE)],
    "an absolute name": [member("/runs/r/manifest.json")],
    "a name above": [member("runs/../manifest.json")],
    "a dotted run": [member("runs/./manifest.json")],
    "a run of another name": [member("runs/-r/manifest.json")],
    "a name of control characters": [member("runs/\x1b[2J/manifest.json")],
    "a file twice": [*run, run[0]],
    "a run that is there": [member("runs/there/manifest.json")],
    "a manifest that is too large": [member("runs/r/manifest.json", bytes((16 << 20) + 1))],
}
for what, members in HOSTILE.items():
    status, line, found = unpacked(lambda path: archive(path, members))
    assert status == 2 and line.count("\n") == 1 and "\x1b" not in line, (what, status, line)
    assert not found, (what, found)


def bomb(path):
    with gzip.open(path, "wb", 1) as out:
        info = tarfile.TarInfo("runs/r/report.html")
        info.size = 1 << 50
        out.write(info.tobuf(tarfile.GNU_FORMAT))
        out.write(bytes(1 << 20))


def header_bomb(path):
    with gzip.open(path, "wb", 1) as out:
        out.write(pax_bomb())


for what, write in {"a bomb": bomb, "a bomb of a header": header_bomb, "no archive": lambda path: open(path, "w").close()}.items():
    status, line, found = unpacked(write)
    assert status == 2 and line.count("\n") == 1 and not found, (what, status, line, found)
print(f"an honest archive and {len(HOSTILE) + 3} others")
