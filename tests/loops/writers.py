"""Producers that write all the time, through librdkafka, and keep their own list of what was acknowledged. A program of its own: it outlives every kill of the broker.

The first line of stdin is the configuration, each further one a command, answered by a report; all are JSON (see harness.Writers). Commands: status; allow (as many records more as the
configuration says); pause (answered when nothing is outstanding); enter (from now on to another topic). The list is FOLDER/WRITER@TOPIC.acks, written by the delivery callbacks: generation, partition, number, offset."""
import functools
import json
import os
import random
import select
import struct
import sys
import time

from confluent_kafka import KafkaException, Producer

from marks import key_of, value_of

ACK = struct.Struct(">iiqq")
OUTSTANDING_MAX = 600 # so that the writer goes on soon after the broker does
BURST_MAX = 12
TURN_S = 0.004


class Writer:
    def __init__(self, folder, bootstrap, number, spec):
        self.folder, self.bootstrap, self.number, self.spec = folder, bootstrap, number, spec
        self.rng = random.Random(f"{spec['seed']} {number}")
        self.generation, self.producer, self.failed = 0, None, False
        self.errors, self.outstanding, self.credit = [], 0, 0.0
        self.allowed = 0 # records: a loop's work does not grow with the time that it takes
        self.enter(spec["topic"], spec["partitions"])
        self.open()

    def enter(self, topic, partitions, first=0):
        """From now on to this topic. first: so many records to each partition, one at a time, before the rest."""
        self.topic, self.partitions = topic, partitions
        self.sent = {} # (generation, partition) -> records
        self.careful = [p for p in range(partitions) for _ in range(first)]
        self.acks = open(os.path.join(self.folder, f"{self.number}@{topic}.acks"), "ab", buffering=0) # pylint: disable=consider-using-with

    def open(self):
        self.in_generation = 0
        self.producer = Producer({
            "bootstrap.servers": self.bootstrap, "client.id": f"writer-{self.number}", "acks": self.spec["acks"],
            "enable.idempotence": self.spec["idempotent"], "compression.type": self.spec["compression"], "linger.ms": self.spec["linger_ms"],
            "message.timeout.ms": 0 if self.spec["idempotent"] else 30000, "retries": 2147483647 if self.spec["idempotent"] else 0,
            "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20, "retry.backoff.max.ms": 200,
            "topic.metadata.refresh.fast.interval.ms": 50, "log_level": 4})

    def delivered(self, acks, generation, partition, number, error, message):
        self.outstanding -= 1
        if error is None:
            acks.write(ACK.pack(generation, partition, number, message.offset()))
        elif self.spec["idempotent"]: # one that isn't takes what comes: a lost answer is an error for it
            try:
                text = error.str()
            except SystemError as e: # so the binding shows that the producer has failed for good
                text = str(e.__cause__)
            self.errors.append(f"record {number} to partition {partition}: {text}")

    def produce(self, partition):
        at = (self.generation, partition)
        number = self.sent.get(at, 0)
        key = key_of(self.number, self.generation, partition, number)
        self.producer.produce(self.topic, value_of(key), key, partition,
                              on_delivery=functools.partial(self.delivered, self.acks, self.generation, partition, number))
        self.sent[at] = number + 1
        self.outstanding += 1
        self.allowed -= 1
        self.in_generation += 1

    def turn(self, elapsed):
        try:
            self.producer.poll(0)
            if not self.failed:
                self.write(elapsed)
        except KafkaException as e: # the producer has failed for good
            if not self.failed:
                self.errors.append(str(e))
            self.failed = True

    def write(self, elapsed):
        if self.allowed <= 0:
            return
        if self.spec["generation"] and self.in_generation >= self.spec["generation"]:
            if self.outstanding == 0: # a new producer, with an id of its own
                self.generation += 1
                self.open()
            return
        if self.careful or self.spec["one_by_one"]:
            if self.outstanding == 0:
                self.produce(self.careful.pop(0) if self.careful else self.rng.randrange(self.partitions))
            return
        self.credit = min(self.credit + elapsed * self.spec["rate"], self.spec["rate"])
        while self.credit >= 1 and self.allowed > 0 and self.outstanding < OUTSTANDING_MAX:
            partition = self.rng.randrange(self.partitions)
            for _ in range(min(self.rng.randint(1, BURST_MAX), int(self.credit), self.allowed)):
                self.credit -= 1
                self.produce(partition)

    def report(self):
        return {"topic": self.topic, "errors": self.errors, "outstanding": self.outstanding, "idempotent": self.spec["idempotent"],
                "sent": [[g, p, n] for (g, p), n in self.sent.items()]}


def main():
    config = json.loads(sys.stdin.readline())
    writers = {int(n): Writer(config["folder"], config["bootstrap"], int(n), spec) for n, spec in config["writers"].items()}
    pausing, last = False, time.monotonic()
    print("{}", flush=True) # ready: one line at a time, so that select and the buffer of stdin agree
    while True:
        command = None
        if select.select([0], [], [], TURN_S)[0]:
            line = sys.stdin.readline()
            if not line:
                os._exit(0) # whoever reads us has gone; what is outstanding is nobody's any more
            fields = json.loads(line)
            command = fields["op"]
            for w in writers.values():
                if command == "allow":
                    w.allowed = w.spec["records"]
                elif command == "pause":
                    w.allowed = 0
                elif command == "enter":
                    w.enter(fields["topic"], fields["partitions"], fields["first"])
            pausing = command == "pause"
        now = time.monotonic()
        for w in writers.values():
            w.turn(now - last)
        last = now
        if (command and not pausing) or (pausing and not any(w.outstanding for w in writers.values())):
            pausing = False
            print(json.dumps({n: w.report() for n, w in writers.items()}), flush=True)


main()
