"""kcat as a peer program, one kcat process per record or read. See ../README.md; kcat has no transactions and hardly any admin calls."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from peer import Refused, Unsupported, decode, encode, encode_value, headers_in, record_value, serve # noqa: E402

producers = {}


def kcat(*args, stdin=b"", timeout=60):
    return subprocess.run(["kcat", *args], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False)


def refused(done):
    text = done.stderr.decode(errors="replace").strip()
    match = re.search(r"Broker: ([^\n)]*)", text)
    name = match.group(1).strip().upper().replace(" ", "_") if match else "KCAT"
    return {"code": -1, "name": name, "message": text}


def hello(_):
    done = kcat("-V")
    return {"client": "kcat", "version": re.search(r"Version ([^\n]*)", (done.stdout + done.stderr).decode()).group(1),
            "features": ["idempotent", "position", "gzip", "snappy", "lz4", "zstd"]}


def open_producer(c):
    if "transactional_id" in c:
        raise Unsupported
    producers[c["id"]] = c


def send(c):
    opened = producers[c["id"]]
    results = []
    for record in c["records"]:
        if "timestamp" in record:
            raise Unsupported
        args = ["-P", "-b", opened["bootstrap"], "-t", c["topic"], "-p", str(c.get("partition", -1)), "-D", "\\0\\0\\0",
                "-X", f"acks={opened.get('acks', 'all')}", "-X", f"enable.idempotence={str(opened.get('idempotent', True)).lower()}",
                "-X", f"delivery.timeout.ms={opened.get('delivery_timeout_ms', 60000)}", "-X", "linger.ms=1",
                "-X", f"message.max.bytes={opened.get('max_request_bytes', 1000000)}",
                "-z", opened.get("compression", "none")]
        for name, value in headers_in(record):
            if value is None:
                raise Unsupported
            args += ["-H", name + "=" + value.decode()]
        key, value = decode(record.get("key")), record_value(record)
        text = value or b""
        if value is None:
            args.append("-Z")
        if key is not None:
            args += ["-K", ":::"]
            text = key + b":::" + text
        elif value is None:
            raise Unsupported # kcat -Z makes a null of an empty line only together with a key
        done = kcat(*args, stdin=text)
        results.append({"error": refused(done)} if done.returncode != 0 or b"Delivery failed" in done.stderr else {"offset": None})
    return {"results": results}


def read(c):
    done = kcat("-C", "-b", c["bootstrap"], "-t", c["topic"], "-p", str(c.get("partition", 0)), "-o",
                str(c["from"]) if "from" in c else "beginning", "-e", "-X", f"isolation.level={c.get('isolation', 'read_uncommitted')}",
                "-X", "auto.offset.reset=error", "-X", "fetch.wait.max.ms=100",
                "-f", "%o %T %K %S|%k%s|%h\\n", timeout=c.get("timeout_ms", 30000) / 1000)
    if done.returncode != 0:
        raise Refused(**refused(done))
    out, at, records = done.stdout, 0, []
    while at < len(out):
        bar = out.index(b"|", at)
        offset, timestamp, key_len, value_len = (int(n) for n in out[at:bar].split())
        at = bar + 1
        key = None if key_len < 0 else out[at:at + key_len]
        at += max(key_len, 0)
        value = None if value_len < 0 else out[at:at + value_len]
        at += max(value_len, 0)
        end = out.index(b"\n", at)
        pairs = [pair.split("=", 1) for pair in out[at + 1:end].decode().split(",") if pair]
        records.append({"offset": offset, "timestamp": timestamp, "key": encode_value(key), "value": encode_value(value),
                        "headers": [[name, None if text == "NULL" else encode(text.encode())] for name, text in pairs]})
        at = end + 1
    reached = re.search(rb"Reached end of topic .* at offset (\d+)", done.stderr)
    return {"records": records, "position": int(reached.group(1)) if reached else None}


def list_offset(c):
    at = {"latest": -1, "earliest": -2}.get(c["at"], c["at"])
    if at == "max_timestamp":
        raise Unsupported
    done = kcat("-Q", "-b", c["bootstrap"], "-t", f"{c['topic']}:{c.get('partition', 0)}:{at}")
    if done.returncode != 0:
        raise Refused(**refused(done))
    return {"offset": int(re.search(rb"offset (-?\d+)", done.stdout).group(1))}


serve({
    "hello": hello,
    "producer.open": open_producer,
    "producer.send": send,
    "producer.close": lambda c: producers.pop(c["id"]) and None,
    "consumer.read": read,
    "admin.list_offset": list_offset,
})
