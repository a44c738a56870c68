"""See scripts/demo."""
import os
import random
import shutil
import sys
import tempfile
import time

import kafka_peer
from batch import init_producer_id
from kagamid import Kagamid, kagami, kagami_json
from peers import Peer, create_topic, record
from processes import die_with_parent, free_ports
from raw import ABORT, MIRROR_PID_RESET, Partition, differences
from waiting import wait_until
from wire import Client

ORDERS, PAYMENTS = "orders", "payments"
PARTITIONS = {ORDERS: 3, PAYMENTS: 1}
ORDER_COUNT, ORDER_BYTES = 30_000, 600

started = time.monotonic()
proved = []


def say(text):
    print(f"\n[{time.monotonic() - started:5.1f} s] {text}", flush=True)


def show(daemon, *arguments):
    """Runs a command as a person would, and shows both."""
    print(f"    $ kagami {' '.join(arguments)}", flush=True)
    text = kagami(*arguments, bootstrap=daemon.bootstrap)
    for line in text.rstrip().splitlines():
        print("    " + line, flush=True)
    return text


def prove(what, condition, detail=""):
    if not condition:
        raise AssertionError(f"not proved: {what}{': ' + str(detail) if detail else ''}")
    proved.append((what, str(detail)))
    print(f"    ok: {what}{f' ({detail})' if detail != '' else ''}", flush=True)


class Demo:
    def __init__(self, folder):
        self.folder = folder
        self.source = None
        self.real_kafka = False
        self.daemon = None
        self.client = None
        self.open = []
        self.wanted = {ORDERS: [], PAYMENTS: []}

    def start(self):
        why = "asked for" if "--source=kagamid" in sys.argv else kafka_peer.available()
        if why:
            self.source = Kagamid(os.path.join(self.folder, "source"))
            say(f"The source: a second kagamid, not a real Kafka ({why.splitlines()[0]})")
        else:
            self.real_kafka = True
            self.source = kafka_peer.Kafka(os.path.join(self.folder, "kafka"), free_ports(2), preexec=die_with_parent)
            say("The source: a real Apache Kafka")
        self.open.append(self.source)
        self.source.start()
        self.daemon = Kagamid(os.path.join(self.folder, "kagami"))
        self.open.append(self.daemon)
        self.daemon.start()
        self.client = Peer("librdkafka", os.path.join(self.folder, "client.log"))
        self.open.append(self.client)
        print(f"    source {self.source.bootstrap}, cluster {self.source.cluster_id}")
        print(f"    kagamid {self.daemon.bootstrap}, cluster {self.daemon.cluster_id}")
        print(f"    client librdkafka {self.client.version}")

    def colliding_producers(self):
        """A producer of Kagami that is alive before the hand-over, and at the source one with the same producer id, for another application."""
        say("Two applications whose producers have the same id, each in its own cluster")
        create_topic(self.client, self.daemon.bootstrap, "local")
        self.local = self.client.producer(self.daemon.bootstrap)
        self.local.send("local", [b"a record of Kagami's own"])
        local_id = Partition(self.daemon.bootstrap, "local").batches[-1].producer_id
        with Client(self.source.bootstrap) as raw:
            next_id = init_producer_id(raw) + 1
            if next_id > local_id: # the other way round: the local one must catch up
                with Client(self.daemon.bootstrap) as mine:
                    while init_producer_id(mine) < next_id - 1:
                        pass
                self.local = self.client.producer(self.daemon.bootstrap)
                self.local.send("local", [b"another"])
                local_id = Partition(self.daemon.bootstrap, "local").batches[-1].producer_id
            while next_id < local_id:
                next_id = init_producer_id(raw) + 1
        self.colliding = self.client.producer(self.source.bootstrap)
        self.local_id = local_id

    def write_orders(self):
        say(f"{ORDER_COUNT} orders by an idempotent producer" + (", payments by a transactional one, every third transaction aborted" if self.real_kafka else ""))
        for topic, partitions in PARTITIONS.items():
            create_topic(self.client, self.source.bootstrap, topic, partitions)
        rng = random.Random(1)
        self.colliding.send(ORDERS, [b"the first order"])
        self.wanted[ORDERS].append(b"the first order")
        source_id = Partition(self.source.bootstrap, ORDERS).batches[0].producer_id
        prove("a producer of the source and one of Kagami have the same id", source_id == self.local_id, f"id {source_id}")
        text = rng.randbytes(1 << 20).hex().encode()
        with self.client.producer(self.source.bootstrap, compression="lz4") as producer:
            for start in range(0, ORDER_COUNT, 1000):
                cuts = [rng.randrange(len(text) - ORDER_BYTES) for _ in range(1000)]
                values = [b"order %06d " % (start + i) + text[cut:cut + ORDER_BYTES] for i, cut in enumerate(cuts)]
                producer.send(ORDERS, [record(key=b"%d" % i, value=v) for i, v in enumerate(values)], partition=(start // 1000) % 3)
                self.wanted[ORDERS] += values
        if self.real_kafka:
            with self.client.producer(self.source.bootstrap, transactional_id="payments") as producer:
                for i in range(9):
                    producer.begin()
                    producer.send(PAYMENTS, [b"payment %d" % i])
                    if i % 3 == 2:
                        producer.abort()
                    else:
                        producer.commit()
                        self.wanted[PAYMENTS].append(b"payment %d" % i)
            self.left_open = self.client.producer(self.source.bootstrap, transactional_id="payments-open")
            self.left_open.begin()
            self.left_open.send(PAYMENTS, [b"a payment that nobody will ever decide"])
        else:
            with self.client.producer(self.source.bootstrap) as producer:
                self.wanted[PAYMENTS] = [b"payment %d" % i for i in range(9)]
                producer.send(PAYMENTS, self.wanted[PAYMENTS])

    def logs(self, bootstrap):
        return {(t, p): Partition(bootstrap, t, p) for t, n in PARTITIONS.items() for p in range(n)}

    def mirror(self):
        say("The mirror")
        show(self.daemon, "mirror", "create", "dc2", "--source", self.source.bootstrap)
        show(self.daemon, "mirror", "start", "dc2", "--topics", f"{ORDERS},{PAYMENTS}")
        ends = {at: log.high_watermark for at, log in self.logs(self.source.bootstrap).items()}
        total, last = sum(ends.values()), [-1]

        def copied():
            mirrors = kagami_json("mirror", "describe", "dc2", bootstrap=self.daemon.bootstrap)["mirrors"]
            at = {(t["topicName"], p["partitionIndex"]): max(p["destinationOffset"], 0) for m in mirrors for t in m["topics"] for p in t["partitions"]}
            done = sum(at.values())
            if done != last[0]:
                last[0] = done
                print(f"    copied {done} of {total} records ({100 * done // total} %)", flush=True)
            return all(at.get(key, 0) >= end for key, end in ends.items())
        wait_until(copied, 60, "the mirror did not catch up", pause=0.1)
        show(self.daemon, "mirror", "describe", "dc2")

    def compare(self):
        say("Source and mirror, batch by batch")
        theirs, self.copies = self.logs(self.source.bootstrap), self.logs(self.daemon.bootstrap)
        found = [d for at, log in theirs.items() for d in differences(log, self.copies[at])]
        batches = [b for log in theirs.values() for b in log.batches]
        prove("every batch of the mirror is equal to the source's, byte for byte", not found,
              found or f"{len(batches)} batches, {sum(len(b.data) for b in batches)} bytes in {len(theirs)} partitions")
        refused = self.client.producer(self.daemon.bootstrap).try_send(ORDERS, [b"too early"])[0]
        prove("a write to a mirror topic is refused", "error" in refused, refused.get("error", {}).get("name"))

    def lose_the_source(self):
        say("The source is killed (SIGKILL), and Kagami takes over")
        self.source.kill()
        show(self.daemon, "mirror", "stop", "dc2")
        mirrors = kagami_json("mirror", "describe", "dc2", bootstrap=self.daemon.bootstrap)["mirrors"]
        states = {p["state"] for m in mirrors for t in m["topics"] for p in t["partitions"]}
        prove("every partition is STOPPED, with a dead source", states == {"STOPPED"}, f"{sum(PARTITIONS.values())} partitions")

    def take_over(self):
        say("Writers go on: a fresh idempotent producer, and the one whose id the copied data use for a stranger")
        fresh = self.client.producer(self.daemon.bootstrap)
        for i in range(10):
            self.wanted[ORDERS].append(b"fresh %d" % i)
            fresh.send(ORDERS, self.wanted[ORDERS][-1:])
        self.wanted[PAYMENTS].append(b"fresh payment")
        fresh.send(PAYMENTS, [b"fresh payment"])
        self.wanted[ORDERS].append(b"by the producer whose id collides")
        self.local.send(ORDERS, self.wanted[ORDERS][-1:])
        logs = self.logs(self.daemon.bootstrap)
        barriers = [b for log in logs.values() for b in log.batches if b.control_type() == MIRROR_PID_RESET]
        prove("each log has one barrier", len(barriers) == len(logs), f"{len(barriers)} MIRROR_PID_RESET")
        copied = {b.producer_id for log in self.copies.values() for b in log.batches}
        new = [b for at, log in logs.items() for b in log.batches[len(self.copies[at].batches):] if b.producer_id >= 0 and not b.is_control]
        fresh_ids = {b.producer_id for b in new} - {self.local_id}
        prove("without its floor Kagami would give out an id that the copied data use", self.local_id + 1 in copied, f"id {self.local_id + 1}")
        prove("fresh producers have ids that the copied data never used", not fresh_ids & copied, f"ids {sorted(fresh_ids)}")
        if self.real_kafka:
            ended = [b for b in logs[(PAYMENTS, 0)].batches[len(self.copies[(PAYMENTS, 0)].batches):] if b.control_type() == ABORT]
            prove("the transaction that nobody could decide any more is aborted", len(ended) == 1)

    def find_all(self):
        say("Every record, found again by clients that we did not write")
        clients = [self.client]
        if self.real_kafka:
            try:
                clients.append(Peer("java", os.path.join(self.folder, "java.log")))
                self.open.append(clients[-1])
            except AssertionError as why: # no javac: the other client is there
                print(f"    no Java client: {why}")
        self.daemon.kill()
        self.daemon.start()
        print("    (kagamid was killed and started again before)")
        for client in clients:
            for topic, partitions in PARTITIONS.items():
                read = [v for p in range(partitions)
                        for v in client.read(self.daemon.bootstrap, topic, p, isolation="read_committed").values]
                prove(f"{client.name} {client.version} finds every record of {topic}, none twice", sorted(read) == sorted(self.wanted[topic]), f"{len(read)} records")

    def run(self):
        for step in (self.start, self.colliding_producers, self.write_orders, self.mirror, self.compare, self.lose_the_source, self.take_over,
                     self.find_all):
            step()

    def end(self):
        for thing in reversed(self.open):
            (thing.kill if hasattr(thing, "kill") else thing.close)()


def main():
    folder = tempfile.mkdtemp(prefix="kagami-demo-")
    demo = Demo(folder)
    try:
        demo.run()
    except Exception as why: # pylint: disable=broad-except
        print(f"\nThe demo failed: {type(why).__name__}: {why}\nIts files stay in {folder}", file=sys.stderr)
        demo.end()
        return 1
    demo.end()
    shutil.rmtree(folder)
    width = max(len(what) for what, _ in proved)
    print("\nProved, with a real Apache Kafka as the source:" if demo.real_kafka else "\nProved, with a kagamid as the source:")
    for what, detail in proved:
        print(f"  {what:{width}}  {detail}")
    print(f"{len(proved)} of {len(proved)} proved in {time.monotonic() - started:.0f} s")
    return 0


sys.exit(main())
