"""A Kafka in between: forwards to a real broker and changes its answers, for what no healthy source sends.

    Proxy(kafka.bootstrap, {"Fetch": lambda version, answer: ..})   change is called with the decoded answer; what it returns (or changed) is sent

Metadata is always rewritten so that clients stay with the proxy."""
import socket
import struct
import threading

from wire import APIS_BY_KEY, decode, encode


def _exactly(s, n):
    out = b""
    while len(out) < n:
        part = s.recv(min(n - len(out), 1 << 20))
        if not part:
            return None
        out += part
    return out


def _frame(s):
    head = _exactly(s, 4)
    return None if head is None else _exactly(s, struct.unpack(">i", head)[0])


class Proxy:
    def __init__(self, target, change=None):
        host, _, port = target.rpartition(":")
        self.target = (host, int(port))
        self.change = change or {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._open, self._closed = [self._listener], False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self.target)
            except OSError:
                if self._closed:
                    return
                client.close()
                continue
            self._open += [client, broker]
            threading.Thread(target=self._serve, args=(client, broker), daemon=True).start()

    def _serve(self, client, broker):
        try:
            while True:
                request = _frame(client)
                if request is None:
                    break
                broker.sendall(struct.pack(">i", len(request)) + request)
                key, version = struct.unpack_from(">hh", request)
                answer = _frame(broker)
                if answer is None:
                    break
                answer = self._changed(key, version, answer)
                client.sendall(struct.pack(">i", len(answer)) + answer)
        except OSError:
            pass
        finally:
            client.close()
            broker.close()

    def _changed(self, key, version, data):
        api = APIS_BY_KEY.get(key)
        if api is None or (api.name not in self.change and api.name not in ("Metadata", "DescribeCluster")):
            return data
        head, used = decode("ResponseHeader", api.response_header_version(version), data)
        body, _ = decode(api.response.name, version, data[used:])
        for broker in body.get("brokers", []):
            broker["host"], broker["port"] = "127.0.0.1", self.port
        if api.name in self.change:
            body = self.change[api.name](version, body) or body
        return encode("ResponseHeader", api.response_header_version(version), head) + encode(api.response.name, version, body)

    def close(self):
        self._closed = True
        for s in self._open:
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class NoKafka:
    """A server that is no Kafka: it answers whatever comes with the same text."""

    def __init__(self, text=b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.bootstrap = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._text = text
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client:
                try:
                    if client.recv(4096):
                        client.sendall(self._text)
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()
