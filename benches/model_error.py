"""The error of causes that are priced by counts: how far their shares are from those of CPU samples.

Arguments: the bytecost command, then folders of runs with `--evidence time,copies,counts`. Each run is judged
twice, with its CPU samples and without them, and the shares of what both explain are compared.
"""

import json, math, os, shutil, subprocess, sys, tempfile

# The kinds of work that the cost of an event is made of.
KINDS = {
    "copies": ["data-copy"],
    "system-calls": ["entry", "socket"],
    "context-switches": ["scheduling"],
    "page-faults": ["memory"],
    "packets": ["protocol", "device", "skb"],
}


def without_samples(command, run):
    with tempfile.TemporaryDirectory() as place:
        name = os.path.basename(run.rstrip("/"))
        copy = os.path.join(place, "bytecost-runs", name)
        shutil.copytree(run, copy)
        lines = open(os.path.join(run, "samples.jsonl")).readlines()
        with open(os.path.join(copy, "samples.jsonl"), "w") as log:
            for line in lines:
                record = json.loads(line)
                for value in [record, *record.values()]:
                    if isinstance(value, dict) and "every_ns" in str(value.get("time")):
                        value["time"] = None
                log.write(json.dumps(record) + "\n")
        subprocess.run([command, "report", name], cwd=place, stdout=subprocess.DEVNULL)
        return json.load(open(os.path.join(copy, "findings.json")))


def shares(command, run):
    sampled = json.load(open(os.path.join(run, "findings.json")))
    counted = {c["finding"]: c for c in without_samples(command, run)["causes"]}
    times = {t["cell"]: t["kinds"] for t in sampled["cpu_time"]}
    total = lambda cell, kinds: sum(
        k["ns_per_unit"] for k in times[cell] if k["party"] != "rest" and (not kinds or k["kind"] in kinds)
    )
    for causes in sampled["causes"]:
        other = counted.get(causes["finding"])
        if causes["by"] != "samples" or not other:
            continue
        finding = sampled["findings"][causes["finding"]]
        more = lambda kinds=None: total(finding["cell"], kinds) - total(finding["baseline"], kinds)
        for cause in other["causes"]:
            event = cause["of"] if isinstance(cause["of"], str) else cause["of"]["event"]
            if cause.get("cost_ns"):
                priced = cause["cost_ns"]["value"] / other["difference_ns"]["value"]
                yield event, more(KINDS[event]) / more(), priced


found = [s for run in sys.argv[2:] for s in shares(sys.argv[1], run)]
for event, sampled, priced in found:
    print(f"{event:18} by samples {sampled:6.1%}, by counts {priced:6.1%}")
factors = sorted(abs(math.log(p / s)) for _, s, p in found if p * s > 0)
if factors:
    rms = math.exp((sum(f * f for f in factors) / len(factors)) ** 0.5)
    print(f"{len(found)} causes, {len(found) - len(factors)} of another sign; root mean square factor {rms:.2f}, largest {math.exp(factors[-1]):.2f}")
