"""All rows, in groups."""
import rows_data
import rows_footprint
import rows_mirror

GROUPS = {
    "machine": rows_data.MACHINE,
    "produce": rows_data.PRODUCE,
    "consume": rows_data.CONSUME,
    "latency": rows_data.LATENCY,
    "durable": rows_data.DURABLE,
    "untouched": rows_data.UNTOUCHED,
    "mirror": rows_mirror.MIRROR,
    "footprint": rows_footprint.FOOTPRINT,
}


def choose(texts):
    """{group: [work]}: those of which a line's name begins with one of the texts, or the group's is one; all of them without texts.
    A text that is no beginning itself (names have commas in them) is taken for several with commas between."""
    names = [line.name for works in GROUPS.values() for work in works for line in work.lines]
    words = [word for text in texts or [] for word in ([text] if any(n.startswith(text) for n in names) else text.split(","))]

    def wanted(group, work):
        return not words or group in words or any(line.name.startswith(w) for line in work.lines for w in words)
    chosen = {group: [w for w in works if wanted(group, w)] for group, works in GROUPS.items()}
    if not any(chosen.values()):
        raise SystemExit(f"no row begins with {' or '.join(words)}; --list shows them")
    return chosen
