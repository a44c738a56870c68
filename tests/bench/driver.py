"""Chooses rows, runs them, prints the table."""
import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

import kafka_peer
import rows
import systems
from work import Brokers, OURS

DISK_GB = 16 # what lies there at most, at scale 1
GENERATOR_LIMIT = 0.4 # CPU seconds a GB


class Bench:
    """What rows share: sizes, rounds, folders, brokers, and the results."""

    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.tool = systems.Tool(self.build)
        self.rounds, self.scale = options.rounds, options.scale
        self.late_at = time.monotonic() + options.minutes * 60
        self.folder = os.path.abspath(options.folder or os.path.join(self.build, "bench-data"))
        self.kafka_missing = kafka_peer.available()
        self.maker_missing = self.kafka_missing or kafka_peer.available("mirror-maker")
        self.brokers = Brokers(self)
        self.results, self.failures = [], {}

    def bytes(self, mb):
        return max(int(mb * 1e6 * self.scale), 1000000)

    def partitions(self, count):
        return max(int(count * min(self.scale, 1)), 10)

    def seconds(self, limit):
        """A time limit, wider where more has to be done or others work here too."""
        return limit * max(self.scale, 1) * max(os.getloadavg()[0] / os.cpu_count(), 1)

    def late(self):
        return time.monotonic() > self.late_at

    def path(self, name):
        os.makedirs(self.folder, exist_ok=True)
        return os.path.join(self.folder, name)

    def scaled_name(self, name):
        return re.sub(r"\b[25],000(?= (idle )?partitions)", lambda found: f"{self.partitions(int(found[0].replace(',', ''))):,}", name)

    def add(self, line, results, failed, took_s):
        note = line.note(results[OURS]) if line.note and results.get(OURS) else ""
        rounds = max((len(all_) for all_ in results.values()), default=0)
        if 0 < rounds < self.rounds:
            note += f" ({rounds} round{'s' if rounds > 1 else ''})"
        fields = {"work": self.scaled_name(line.name) + note, **line.figures(results), "took_s": took_s,
                  "failed": {side: why for side, why in failed.items() if side in (OURS, line.against)}, "all": results}
        for side, why in fields["failed"].items():
            self.failures.setdefault(why, f"{fields['work']} ({side})")
        self.results.append(fields)
        print_line(fields)


# ---- The table ----

COLUMNS = (("work", 62), ("unit", 6), ("Kagami", 7), ("yardstick", 9), ("beside", 13), ("ratio", 6), ("aim", 12), ("CPU Kagami", 10), ("CPU yardstick", 13),
           ("ratio", 6), ("aim", 10), ("MB Kagami", 9), ("MB yardstick", 12), ("generator", 9))


def number(value):
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def aim(value, target, word="", least=True):
    """The aim and whether it is met."""
    if target is None:
        return ""
    met = "?" if value is None else "met" if (value >= target if least else value <= target) else "NOT met"
    return f"{'≥' if least else '≤'} {target:g}{word}: {met}"


def print_cells(cells):
    print("| " + " | ".join(f"{c:<{width}}" if i in (0, 1, 4) else f"{c:>{width}}" for i, (c, (_, width)) in enumerate(zip(cells, COLUMNS))) + " |", flush=True)


def print_head():
    print_cells([name for name, _ in COLUMNS])
    print("|" + "|".join(" --- " for _ in COLUMNS) + "|")


def print_line(r):
    unit = f" {r['unit']}"
    wanted = aim(r["kagami"], r["limit"], unit, least=False) if r["limit"] is not None else aim(r["ratio"], r["aim"]) if r["yardstick"] is not None else ""
    failed = {side: "failed" for side in r["failed"]}
    print_cells([r["work"], r["unit"], failed.pop(OURS, None) or number(r["kagami"]), next(iter(failed.values()), None) or number(r["yardstick"]),
                 r["beside"] or next(iter(failed), "") or "", number(r["ratio"]), wanted, number(r["cpu"]), number(r["yard_cpu"]), number(r["cpu_ratio"]),
                 aim(r["cpu_ratio"], r["cpu_aim"]) if r["cpu_ratio"] is not None else "", number(r["mb"]), number(r["yard_mb"]), number(r["generator"])])


def print_end(bench, seconds):
    print()
    costs = [(r["generator"], r["work"]) for r in bench.results if r["generator"] is not None]
    if costs:
        most = max(costs)
        print(f"Load generator: {number(statistics.median(c for c, _ in costs))} CPU s/GB in the median of the rows, {number(most[0])} at most ({most[1]}); "
              f"it should stay below {GENERATOR_LIMIT}.")
    aims = [(r[value], r[target], sign) for r in bench.results for value, target, sign in (("ratio", "aim", 1), ("cpu_ratio", "cpu_aim", 1), ("kagami", "limit", -1))
            if r[target] is not None and r[value] is not None]
    print(f"{sum(1 for value, target, sign in aims if (value - target) * sign >= 0)} of {len(aims)} aims are met. {seconds / 60:.0f} minutes.")
    for why, row in bench.failures.items():
        print(f"Not measured: {row}: {why}")


# ---- Where it was measured ----

def first_line(path, key=None):
    try:
        with open(path, encoding="utf-8") as f:
            return next((line.split(":", 1)[-1].strip() for line in f if key is None or line.startswith(key)), "?")
    except OSError:
        return "?"


def file_system(folder):
    """Type and device of the mount that holds the folder."""
    with open("/proc/mounts", encoding="utf-8") as f:
        mounts = [line.split()[:3] for line in f]
    device, _, kind = max((m for m in mounts if os.path.join(folder, "").startswith(os.path.join(m[1], ""))), key=lambda m: len(m[1]))
    return f"{kind} on {device}"


def commit():
    done = subprocess.run(["git", "-C", os.path.dirname(__file__), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def print_environment(bench):
    load = os.getloadavg()
    sync = bench.tool("disk", file=bench.path("disk"), seconds=1)
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, Kagami {commit()}, {bench.rounds} rounds, scale {bench.scale:g}. {os.cpu_count()} cores ({first_line('/proc/cpuinfo', 'model name')}), "
          f"{memory_gb:.0f} GB, Linux {os.uname().release}, {file_system(bench.folder)}, {sync['syncs_s']:,.0f} syncs/s of 16 kB, load before {load[0]:.2f} {load[1]:.2f} {load[2]:.2f}. "
          f"Kafka: {bench.kafka_missing or '4.4.0, as its own start script runs it'}. MirrorMaker 2: {bench.maker_missing or '4.3.1, tuned'}.")
    print("Medians. CPU: seconds of the process a GB where bytes move, else seconds; MB: its peak memory. Ratios above 1 are in Kagami's favour.\n")


def check_disk(bench):
    """A full disk would spoil the rows and whatever else lives there."""
    os.makedirs(bench.folder, exist_ok=True)
    needed, free = DISK_GB * max(bench.scale, 0.1), shutil.disk_usage(bench.folder).free / 1e9
    if free < needed:
        raise SystemExit(f"{bench.folder} has {free:.1f} GB free, and at this scale up to {needed:.1f} GB are needed; --folder names another disk, --scale makes it less")
    print(f"Up to {needed:.1f} GB of {free:.0f} free are used in {bench.folder}.", file=sys.stderr)


def parse(doc, arguments):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=float(os.environ.get("BENCH_SCALE", "1")))
    parser.add_argument("--minutes", type=float, default=45)
    parser.add_argument("--build", default=os.path.join(os.path.dirname(__file__), "..", "..", "build"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--json")
    return parser.parse_args(arguments)


def interrupted(number_, _):
    raise KeyboardInterrupt(signal.Signals(number_).name)


def run(bench, chosen):
    start = time.monotonic()
    print_environment(bench)
    print_head()
    try:
        for group, works in chosen.items():
            if group == "footprint":
                bench.brokers.drop() # it has brokers of its own
            for work in works:
                work.run(bench)
            if works:
                print(f"{group}: done after {(time.monotonic() - start) / 60:.1f} minutes", file=sys.stderr)
    except KeyboardInterrupt:
        bench.failures["interrupted"] = "the rest"
    print_end(bench, time.monotonic() - start)


def main(doc, arguments):
    options = parse(doc, arguments)
    chosen = rows.choose(options.rows)
    if options.list:
        for group, works in chosen.items():
            for line in dict.fromkeys(line.name for work in works for line in work.lines):
                print(f"{group}: {line}")
        return 0
    signal.signal(signal.SIGTERM, interrupted)
    bench = Bench(options)
    check_disk(bench)
    try:
        run(bench, chosen)
    finally:
        for number_ in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number_, signal.SIG_IGN) # who is impatient now leaves something behind
        systems.end_all()
        shutil.rmtree(bench.folder, ignore_errors=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(bench.results, f, indent=1)
    return 1 if bench.failures else 0
