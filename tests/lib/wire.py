"""The wire protocol for tests, from the same schemas as the program but with its own encoder, so that the two check each other.

Messages are dicts with the protocol's names in camelCase; a field that is left out has its default. uuids are Kafka's text, bytes and records
are bytes or None. encode("FetchRequest", 12, {..}), decode("FetchResponse", 12, data) -> (dict, bytes used).

Client is a blocking connection for raw requests and hostile input:

    with Client("localhost:9092") as client:
        client.send("Metadata", 12, {"topics": None})["brokers"]
        client.send_bytes(b"..."); client.closed()
"""

import base64
import pathlib
import socket
import struct
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "src"
sys.path.insert(0, str(SOURCE / "proto"))
import schema as model  # noqa: E402

SCHEMA = model.load(SOURCE)
APIS_BY_KEY = {api.key: api for api in SCHEMA.apis.values()}
ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
PACK = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "int64": ">q", "float64": ">d"}


class WireError(Exception):
    """The bytes are not a message, or a dict cannot be one."""


def uuid_bytes(text):
    return base64.urlsafe_b64decode(text + "==")


def uuid_text(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def uvarint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def default_of(field):
    if field.base == "struct" and not field.array and field.default is not None:
        return {f.camel: default_of(f) for f in field.fields}
    return list(field.default) if isinstance(field.default, list) else field.default


class Writer:
    def __init__(self, version, flexible):
        self.version, self.flexible = version, flexible

    def length(self, value, width, field):
        """-1 = null."""
        if field.is_compact(self.flexible):
            return uvarint(value + 1)
        return struct.pack(">h" if width == 2 else ">i", value)

    def value(self, field, value):
        if value is None:
            if field.base == "struct":
                return b"\xff"
            return self.length(-1, 2 if field.base == "string" else 4, field)
        if field.base == "struct":
            return self.struct(field.fields, value)
        if field.base == "bool":
            return b"\x01" if value else b"\x00"
        if field.base == "uuid":
            return uuid_bytes(value)
        if field.base in PACK:
            return struct.pack(PACK[field.base], value)
        data = value.encode() if field.base == "string" else bytes(value)
        return self.length(len(data), 2 if field.base == "string" else 4, field) + data

    def field(self, field, value):
        if value is None and self.version not in field.nullable:
            raise WireError(f"{field.name} is never null in version {self.version}")
        if field.array:
            if value is None:
                return self.length(-1, 4, field)
            return self.length(len(value), 4, field) + b"".join(self.value(field, v) for v in value)
        mark = b"\x01" if field.base == "struct" and value is not None and self.version in field.nullable else b""
        return mark + self.value(field, value)

    def struct(self, fields, values):
        unknown = set(values) - {f.camel for f in fields}
        if unknown:
            raise WireError(f"no such field: {', '.join(sorted(unknown))}")
        out, tags = [], []
        for f in fields:
            value = values.get(f.camel, default_of(f))
            if self.version not in f.versions:
                if not f.ignorable and value != default_of(f):
                    raise WireError(f"{f.name} does not exist in version {self.version}")
            elif f.tag is None:
                out.append(self.field(f, value))
            elif value != default_of(f):
                tags.append((f.tag, self.field(f, value)))
        if self.flexible:
            out.append(uvarint(len(tags)))
            out += [uvarint(tag) + uvarint(len(data)) + data for tag, data in sorted(tags)]
        return b"".join(out)


class Reader:
    def __init__(self, data, version, flexible):
        self.data, self.at, self.version, self.flexible = data, 0, version, flexible

    def take(self, n):
        if n < 0 or self.at + n > len(self.data):
            raise WireError("ends too early")
        self.at += n
        return self.data[self.at - n : self.at]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise WireError("varint too long")

    def length(self, width, field):
        if field.is_compact(self.flexible):
            return self.uvarint() - 1
        return struct.unpack(">h" if width == 2 else ">i", self.take(width))[0]

    def value(self, field):
        if field.base == "struct":
            return self.struct(field.fields)
        if field.base == "bool":
            return self.take(1) != b"\x00"
        if field.base == "uuid":
            return uuid_text(self.take(16))
        if field.base in PACK:
            return struct.unpack(PACK[field.base], self.take(struct.calcsize(PACK[field.base])))[0]
        length = self.length(2 if field.base == "string" else 4, field)
        if length < 0:
            return None
        data = bytes(self.take(length))
        return data.decode(errors="replace") if field.base == "string" else data

    def field(self, field):
        if field.array:
            count = self.length(4, field)
            value = None if count < 0 else [self.value(field) for _ in range(count)]
        elif field.base == "struct" and self.version in field.nullable and self.take(1)[0] >= 0x80:
            value = None
        else:
            value = self.value(field)
        if value is None and self.version not in field.nullable:
            raise WireError(f"{field.name} is null in version {self.version}")
        return value

    def tags(self, fields, out):
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            end = self.at + size
            known = [f for f in fields if f.tag == tag and self.version in f.versions]
            if known:
                out[known[0].camel] = self.field(known[0])
                if self.at != end:
                    raise WireError(f"tag {tag} has another size")
            else:
                self.take(size)

    def struct(self, fields):
        out = {}
        for f in fields:
            if self.version in f.versions:
                out[f.camel] = self.field(f) if f.tag is None else default_of(f)
        if self.flexible:
            self.tags(fields, out)
        return out


def encode(name, version, values):
    message = SCHEMA.messages[name]
    return Writer(version, message.is_flexible(version)).struct(message.fields, values)


def decode(name, version, data):
    message = SCHEMA.messages[name]
    reader = Reader(data, version, message.is_flexible(version))
    return reader.struct(message.fields), reader.at


def request_frame(api_name, version, values, correlation_id=1, client_id="test"):
    """Length, header, body. values may be bytes: a body as it is."""
    api = SCHEMA.apis[api_name]
    head = {"requestApiKey": api.key, "requestApiVersion": version, "correlationId": correlation_id, "clientId": client_id}
    body = values if isinstance(values, bytes) else encode(api.request.name, version, values)
    frame = encode("RequestHeader", api.request_header_version(version), head) + body
    return struct.pack(">i", len(frame)) + frame


class Client:
    """One connection. address: "HOST:PORT" or (host, port). Every wait ends after timeout_s with an exception."""

    def __init__(self, address, timeout_s=30, client_id="test"):
        if isinstance(address, str):
            host, _, port = address.rpartition(":")
            address = (host.strip("[]"), int(port))
        self.client_id, self.correlation_id = client_id, 0
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, api_name, version, values=None):
        """A request and its answer."""
        self.post(api_name, version, values)
        return self.answer(api_name, version)

    def post(self, api_name, version, values=None):
        """Sends without waiting. Returns the correlation id."""
        self.correlation_id += 1
        self.send_bytes(request_frame(api_name, version, {} if values is None else values, self.correlation_id, self.client_id))
        return self.correlation_id

    def answer(self, api_name, version, correlation_id=None):
        """The next answer; the correlation id must be that of the last request, or the one given."""
        api = SCHEMA.apis[api_name]
        data = self.frame()
        head, used = decode("ResponseHeader", api.response_header_version(version), data)
        expected = self.correlation_id if correlation_id is None else correlation_id
        if head["correlationId"] != expected:
            raise WireError(f"answer to {head['correlationId']} where {expected} was asked")
        body, body_used = decode(api.response.name, version, data[used:])
        if used + body_used != len(data):
            raise WireError(f"{len(data) - used - body_used} bytes behind the answer")
        return body

    def send_bytes(self, data):
        self.socket.sendall(data)

    def receive_bytes(self, n):
        out = bytearray()
        while len(out) < n:
            part = self.socket.recv(min(n - len(out), 1 << 20))
            if not part:
                raise ConnectionError(f"closed after {len(out)} of {n} bytes")
            out += part
        return bytes(out)

    def frame(self):
        return self.receive_bytes(struct.unpack(">i", self.receive_bytes(4))[0])

    def closed(self):
        """Waits until the other side closes; False when it sends something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
