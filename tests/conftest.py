"""For all pytest files: the report of what ran (see run-pytest)."""
import os

counts = {"passed": 0, "failed": 0, "skipped": 0}
named = []


def pytest_runtest_logreport(report):
    if report.skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        counts["skipped"] += 1
        named.append(("skipped", report.nodeid, why.removeprefix("Skipped: ").replace("\n", " ")))
    elif report.failed:
        counts["failed"] += 1
        named.append(("failed", report.nodeid, report.when if report.when != "call" else ""))
    elif report.when == "call":
        counts["passed"] += 1


def pytest_sessionfinish(session, exitstatus):
    build = os.environ.get("KAGAMI_BUILD")
    files = sorted({os.path.relpath(str(item.path), str(session.config.rootpath)) for item in session.items})
    if build and files:
        lines = ["\t".join(("file", " ".join(files), *(str(counts[kind]) for kind in ("passed", "failed", "skipped"))))]
        lines += ["\t".join(entry) for entry in named]
        with open(os.path.join(build, "test-report.txt"), "a", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")
    if exitstatus == 0 and counts["skipped"] and not counts["passed"]:
        session.exitstatus = 77 # CTest's word for a skipped test
