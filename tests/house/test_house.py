"""House rules that a machine can check: direction of the layers, shape of headers, sizes of files, words that have no place in the tree."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
LAYERS = ["base", "os", "codec", "proto", "storage", "net", "client", "meta", "repl", "group", "mirror", "server", "tools"]
FILE_LINES_MAX = 700


def sources(*suffixes):
    return sorted(p for p in SRC.rglob("*") if p.suffix in suffixes)


def tracked():
    out = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in out.decode().split("\0") if name]


def upward_includes(layer, text):
    """Included layers that stand below `layer` in the list, which is the wrong direction."""
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    return [name for name in re.findall(r'^\s*#\s*include\s+"([a-z]+)/', text, re.M) if name in LAYERS and name not in allowed]


def test_the_check_of_directions_can_fail():
    assert upward_includes("storage", '#include "net/conn.h"\n') == ["net"]
    assert upward_includes("net", '#include "storage/plog.h"\n') == []


@pytest.mark.parametrize("path", sources(".c", ".h"), ids=lambda p: str(p.relative_to(SRC)))
def test_a_layer_includes_only_what_stands_above_it(path):
    layer = path.relative_to(SRC).parts[0]
    assert layer in LAYERS, f"{layer} is no layer of the design"
    assert upward_includes(layer, path.read_text()) == []


@pytest.mark.parametrize("path", sources(".h"), ids=lambda p: str(p.relative_to(SRC)))
def test_a_header_opens_with_its_contract(path):
    text = path.read_text()
    guard = "KAGAMI_" + re.sub(r"[/.]", "_", str(path.relative_to(SRC))).upper()
    assert text.startswith("/*"), "a header opens with a comment that states its contract"
    assert f"#ifndef {guard}\n#define {guard}\n" in text


@pytest.mark.parametrize("path", sources(".c", ".h"), ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_is_one_idea(path):
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX


def test_each_layer_has_a_readme_of_a_page():
    for layer in LAYERS:
        if any((SRC / layer).glob("*.c")):
            readme = SRC / layer / "README.md"
            assert readme.exists(), f"src/{layer} has no README.md"
            assert len(readme.read_text().splitlines()) <= 90, f"{readme} is more than a page"


def test_nothing_built_is_in_the_tree():
    assert [str(p.relative_to(ROOT)) for p in tracked() if p.relative_to(ROOT).parts[0].startswith("build")] == []


def test_no_unfinished_marks():
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
    found = []
    for path in tracked():
        if path.suffix in {".c", ".h", ".py", ".sh", ".java", ".go", ".api", ".md"} or path.parent.name == "scripts":
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if marks.search(line):
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_no_printing_and_no_exit_in_the_library_layers():
    """They return errors: repl, mirror, server and the programs speak."""
    speaks = re.compile(r"\b(printf|puts|perror|exit|log_(debug|info|warn|error))\s*\(")
    for layer in ["os", "codec", "proto", "storage", "net", "client", "meta"]:
        for path in (SRC / layer).glob("*.[ch]"):
            code = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            code = re.sub(r'"(\\.|[^"\\])*"', '""', code)
            assert not speaks.search(code), f"{path.relative_to(ROOT)} speaks: {speaks.search(code).group(0)}"


def test_every_fuzz_target_has_a_corpus():
    for target in (ROOT / "tests/fuzz").glob("fuzz_*.c"):
        corpus = ROOT / "tests/fuzz/corpus" / target.stem
        assert corpus.is_dir() and any(corpus.iterdir()), f"{target.stem} has no corpus"
