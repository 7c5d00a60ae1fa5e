#!/usr/bin/env python3
"""Gives recorded manifests the columns of movers and servers from which conditions follow.

A recorded survey has the tables as they were. `python3 tests/goldens/convert-conditions.py` writes the
manifests below crates/bytecost/tests/goldens anew; a second call changes nothing.
"""

import json
import pathlib

GOLDENS = pathlib.Path(__file__).parents[2] / "crates/bytecost/tests/goldens"
CONDITIONS = {
    "mmap-touch": "one-byte-of-each-page",
    "sendfile-null": "no-data-needed",
    "copy_file_range": "one-file-system",
    "uring-sqpoll": "polling-cpu",
}
SERVERS = {
    "select": {"scans_all": True, "descriptors_below": 1024},
    "poll": {"scans_all": True},
    "uring": {"uses_uring": True, "needs_linux": [6, 0]},
}

for path in sorted(GOLDENS.glob("*/manifest.json")):
    text = path.read_text()
    manifest = json.loads(text)
    survey = manifest.get("survey") or {}
    for mover in survey.get("mover_facts", []):
        if mover["name"].startswith("uring-"):
            mover["uses_uring"] = True
        if mover["name"] in CONDITIONS:
            mover["condition"] = CONDITIONS[mover["name"]]
    for server in (survey.get("serving") or {}).get("servers", []):
        server.update(SERVERS.get(server["name"], {}))
    written = json.dumps(manifest, indent=2, ensure_ascii=False)
    path.write_text(written + ("\n" if text.endswith("\n") else ""))
