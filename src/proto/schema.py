"""Reads src/proto/schema/*.api (grammar: README.md of this folder). Used by the generator and by the tests' own encoder."""

import pathlib
import re

FOREVER = 32767
INTEGERS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "int64": 64}
BASES = set(INTEGERS) | {"bool", "float64", "uuid", "string", "bytes", "records"}
# Bytes of the smallest form on the wire; strings and the like: (plain, compact).
MIN_SIZE = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}
MIN_SIZE_VARIABLE = {"string": (2, 1), "bytes": (4, 1), "records": (4, 1)}


class SchemaError(Exception):
    pass


def snake(name):
    """Kafka's own rule (MessageGenerator.toSnakeCase): an underscore before a capital that follows a small letter or a digit."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def camel(name):
    return name[0].lower() + name[1:]


class Range:
    """Versions first to last, both included; empty when first > last."""

    def __init__(self, first, last):
        self.first, self.last = first, last

    @classmethod
    def parse(cls, text):
        match = re.fullmatch(r"(\d+)(\+|-(\d+))?", text)
        if not match:
            raise SchemaError(f"not a version range: {text}")
        first = int(match[1])
        return cls(first, FOREVER if match[2] == "+" else int(match[3]) if match[3] else first)

    def __contains__(self, version):
        return self.first <= version <= self.last

    def __and__(self, other):
        return Range(max(self.first, other.first), min(self.last, other.last))

    def __iter__(self):
        return iter(range(self.first, self.last + 1))

    def __bool__(self):
        return self.first <= self.last

    def __str__(self):
        if not self:
            return "none"
        return f"{self.first}" if self.first == self.last else f"{self.first}{'+' if self.last == FOREVER else f'-{self.last}'}"


NONE = Range(1, 0)


class Field:
    """base: one of BASES or "struct". versions and nullable hold within the field's parent. tag: None when it has none."""

    def __init__(self, name):
        self.name, self.snake, self.camel = name, snake(name), camel(name)
        self.base, self.array, self.nullable, self.versions = None, False, NONE, Range(0, FOREVER)
        self.tag, self.ignorable, self.plain, self.default, self.fields = None, False, False, None, []

    def is_compact(self, flexible):
        return flexible and not self.plain

    def min_size(self, version, flexible):
        if self.tag is not None or version not in self.versions:
            return 0
        if self.array:
            return 1 if flexible else 4
        if self.base == "struct":
            return 1 if version in self.nullable else struct_min_size(self.fields, version, flexible)
        return MIN_SIZE.get(self.base) or MIN_SIZE_VARIABLE[self.base][self.is_compact(flexible)]


def struct_min_size(fields, version, flexible):
    return (1 if flexible else 0) + sum(f.min_size(version, flexible) for f in fields)


class Message:
    def __init__(self, name, valid, flexible):
        self.name, self.snake, self.valid, self.flexible, self.fields = name, snake(name), valid, flexible, []

    def is_flexible(self, version):
        return version in self.flexible


class Api:
    def __init__(self, key, name, valid, flexible, offered):
        self.key, self.name, self.snake, self.valid, self.flexible, self.offered = key, name, snake(name), valid, flexible, offered
        self.request, self.response = Message(name + "Request", valid, flexible), Message(name + "Response", valid, flexible)

    def request_header_version(self, version):
        return 2 if version in self.flexible else 1

    def response_header_version(self, version):
        return 1 if version in self.flexible and self.name != "ApiVersions" else 0


class Schema:
    """apis by name, messages (requests, responses, and what stands alone) by name, both in the order of the files."""

    def __init__(self):
        self.apis, self.messages = {}, {}


def parse_type(field, text):
    match = re.fullmatch(r"(\[\])?(\{\}|\w+)?(\?(\S+)?)?", text)
    if not match or not (match[1] or match[2]):
        raise SchemaError(f"{field.name}: not a type: {text}")
    field.array = bool(match[1])
    field.base = match[2] if match[2] and match[2] != "{}" else "struct"
    if field.base != "struct" and field.base not in BASES:
        raise SchemaError(f"{field.name}: not a type: {text}")
    if match[3]:
        field.nullable = Range.parse(match[4]) if match[4] else Range(0, FOREVER)


def parse_default(field, text):
    """None = null. Without a text: zero, false, the empty string or array, null records."""
    if text is None:
        if field.array:
            return []
        if field.base == "struct":
            return {}
        return {"bool": False, "float64": 0.0, "uuid": "AAAAAAAAAAAAAAAAAAAAAA", "string": "", "bytes": b"", "records": None}.get(field.base, 0)
    if text == "null":
        if not field.nullable:
            raise SchemaError(f"{field.name}: null default of a field that is never null")
        return None
    if field.array or field.base not in INTEGERS and field.base not in ("bool", "string"):
        raise SchemaError(f"{field.name}: no default possible but null")
    if field.base == "bool":
        return {"true": True, "false": False}[text]
    return text if field.base == "string" else int(text)


def parse_field(words, parent_versions):
    field = Field(words[0])
    parse_type(field, words[1])
    default, rest = None, list(words[2:])
    while rest:
        word = rest.pop(0)
        if word == "tag":
            field.tag = int(rest.pop(0))
        elif word == "ignorable":
            field.ignorable = True
        elif word == "plain":
            field.plain = True
        elif word == "=":
            default = rest.pop(0)
        else:
            field.versions = Range.parse(word)
    field.versions = field.versions & parent_versions
    field.nullable = field.nullable & field.versions
    field.default = parse_default(field, default)
    return field


def check_struct(where, fields, valid, flexible):
    names = [f.snake for f in fields]
    if len(set(names)) != len(names):
        raise SchemaError(f"{where}: two fields of one name")
    tags = sorted(f.tag for f in fields if f.tag is not None)
    if tags != list(range(len(tags))) or len(tags) > 64:
        raise SchemaError(f"{where}: tags must be 0, 1, .. (64 at most)")
    for f in fields:
        here = f"{where}.{f.name}"
        if f.tag is not None and any(v not in flexible for v in f.versions):
            raise SchemaError(f"{here}: a tag in a version that is not flexible")
        if f.base == "struct":
            if not f.fields:
                raise SchemaError(f"{here}: a struct without fields")
            check_struct(here, f.fields, valid, flexible)
            # A count is checked against the bytes that are left; elements of no size would defeat it.
            if f.array and any(struct_min_size(f.fields, v, v in flexible) == 0 for v in f.versions):
                raise SchemaError(f"{here}: elements of no size")
        elif f.fields:
            raise SchemaError(f"{here}: only structs have fields")


def parse_head(words, keys):
    """`api KEY NAME valid R [flexible R] [offered R]` and `message NAME valid R [flexible R]`."""
    attributes = dict(zip(words[words.index("valid")::2], words[words.index("valid") + 1::2]))
    valid = Range.parse(attributes["valid"])
    flexible = Range.parse(attributes["flexible"]) & valid if "flexible" in attributes else NONE
    if words[0] == "message":
        return Message(words[1], valid, flexible)
    key = keys["API_" + snake(words[2]).upper()] if words[1] == "mirror" else int(words[1])
    return Api(key, words[2], valid, flexible, Range.parse(attributes["offered"]) if "offered" in attributes else NONE)


def parse_file(path, keys, schema):
    stack, api = [], None  # stack: (indent, list of fields, versions)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        try:
            if indent == 0:
                head = parse_head(words, keys)
                if isinstance(head, Api):
                    api, stack = head, []
                    schema.apis[head.name] = head
                else:
                    api, stack = None, [(0, head.fields, head.valid)]
                    schema.messages[head.name] = head
            elif api and words in (["request"], ["response"]):
                message = getattr(api, words[0])
                schema.messages[message.name] = message
                stack = [(indent, message.fields, message.valid)]
            else:
                while stack[-1][0] >= indent:
                    stack.pop()
                field = parse_field(words, stack[-1][2])
                stack[-1][1].append(field)
                stack.append((indent, field.fields, field.versions))
        except (SchemaError, KeyError, IndexError, ValueError) as error:
            raise SchemaError(f"{path}:{number}: {error}") from error


def mirror_keys(header):
    """The keys of the mirror's calls live in base/mirror_wire.h alone."""
    return {name: int(value) for name, value in re.findall(r"\b(API_\w+)\s*=\s*(\d+)", pathlib.Path(header).read_text())}


def load(source_dir):
    """source_dir: the tree's src."""
    source_dir, schema = pathlib.Path(source_dir), Schema()
    keys = mirror_keys(source_dir / "base" / "mirror_wire.h")
    for path in sorted((source_dir / "proto" / "schema").glob("*.api")):
        parse_file(path, keys, schema)
    for message in schema.messages.values():
        check_struct(message.name, message.fields, message.valid, message.flexible)
    return schema
