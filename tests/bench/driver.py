"""Chooses rows, runs them, prints the table."""
import argparse
import json
import os
import shutil
import sys
import time

import kafka_peer
import rows
from mirror import MirrorError
from systems import BenchFailed, Tool

COLUMNS = ("work", "unit", "kagami", "yardstick", "ratio", "aim", "CPU k", "CPU y", "CPU ratio", "aim", "MB k", "MB y")


class Bench:
    """What rows share: sizes, rounds, folders, and the results."""

    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.tool = Tool(self.build)
        self.rounds, self.scale = options.rounds, options.scale
        self.folder = os.path.abspath(options.folder or os.path.join(self.build, "bench-data"))
        self.kafka_missing = kafka_peer.available()
        self.results = []

    def bytes(self, mb):
        return max(int(mb * 1e6 * self.scale), 1000000)

    def path(self, name):
        os.makedirs(self.folder, exist_ok=True)
        return os.path.join(self.folder, name)

    def add(self, row, **fields):
        self.results.append({"work": row, **fields})
        print_line(self.results[-1])


def number(value):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


WIDTHS = (46, 7, 9, 9, 7, 7, 7, 7, 9, 7, 7, 7)


def print_cells(cells):
    print("  ".join(f"{c:{'<' if i < 2 else '>'}{WIDTHS[i]}}" for i, c in enumerate(cells)).rstrip(), flush=True)


def print_line(r):
    print_cells([r["work"], r.get("unit", ""), *(number(r.get(k)) for k in
                 ("kagami", "yardstick", "ratio", "aim", "cpu", "yard_cpu", "cpu_ratio", "cpu_aim", "mb", "yard_mb"))])




def main(doc, arguments):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=float(os.environ.get("BENCH_SCALE", "1")))
    parser.add_argument("--build", default=os.path.join(os.path.dirname(__file__), "..", "..", "build"))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--json")
    options = parser.parse_args(arguments)
    chosen = rows.choose(options.rows.split(",") if options.rows else None)
    if options.list:
        for group in chosen:
            for row in group.rows:
                print(row.name)
        return 0
    bench = Bench(options)
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load {load:.1f}, {options.rounds} rounds, scale {options.scale}, {time.strftime('%Y-%m-%d %H:%M')}. "
          f"kafka: {'no: ' + bench.kafka_missing if bench.kafka_missing else 'yes'}. CPU: s/GB of the broker where bytes move, else seconds.")
    print_cells(COLUMNS)
    failed = 0
    try:
        for group in chosen:
            try:
                group.run(bench)
            except (BenchFailed, MirrorError) as why:
                failed = 1
                print(f"{group.name}: {why}", file=sys.stderr)
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(bench.results, f, indent=1)
    return failed
