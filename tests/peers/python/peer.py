"""What the Python peer programs share: the loop over commands, base64, errors. See ../README.md."""
import base64
import hashlib
import json
import sys

LONG_VALUE = 4096


class Unsupported(Exception):
    pass


class Refused(Exception):
    """An error as the client shows it."""

    def __init__(self, code, name, message):
        super().__init__(message)
        self.error = {"code": code, "name": name, "message": message}


def decode(text):
    return None if text is None else base64.b64decode(text)


def encode(value):
    return None if value is None else base64.b64encode(value).decode()


def encode_value(value):
    if value is None or len(value) <= LONG_VALUE:
        return encode(value)
    return {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}


def record_value(record):
    if "value_file" in record:
        with open(record["value_file"], "rb") as f:
            return f.read()
    return decode(record.get("value"))


def headers_in(record):
    return [(name, decode(value)) for name, value in record.get("headers", [])]


def serve(ops):
    """ops: name -> function(command) returning the answer's fields."""
    answers = sys.stdout
    sys.stdout = sys.stderr # nothing but answers on stdout
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command["op"] not in ops:
                raise Unsupported
            answer = {"ok": True, **(ops[command["op"]](command) or {})}
        except Unsupported:
            answer = {"ok": False, "unsupported": True}
        except Refused as refused:
            answer = {"ok": False, "error": refused.error}
        except Exception as e: # pylint: disable=broad-except
            answer = {"ok": False, "error": {"code": -1, "name": type(e).__name__, "message": str(e)}}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
