from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.codec import independent_reader, vector_files

VECTORS = sorted(vector_files.FOLDER.glob("*.vec"))
ANSWERS = ("expect", "ends", "verdicts", "letters", "packets", "sha256")


def _expected(path: Path) -> dict[str, str]:
    fields = vector_files.load(path).fields
    return {key: fields[key] for key in ANSWERS if key in fields}


def test_every_outcome_has_a_vector() -> None:
    outcomes = {vector_files.load(path).fields["expect"] for path in VECTORS}
    assert outcomes == {
        "success",
        "tampered",
        "gap",
        "unverifiable",
        "unsigned",
        "no match",
        "format error",
    }


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_our_reader_gives_what_the_vector_names(path: Path) -> None:
    vector = vector_files.load(path)
    regions = vector_files.regions_of(vector.fields)
    assert vector_files.results(vector.units, vector.camera, vector.secrets, regions) == _expected(path)


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_a_reader_written_from_the_specification_alone_agrees(path: Path) -> None:
    assert independent_reader.run(path) == _expected(path)


def test_the_independent_reader_shares_no_code_with_the_product() -> None:
    tree = ast.parse(Path(independent_reader.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    packages = {name.split(".")[0] for name in names}
    assert packages <= {*sys.stdlib_module_names, "cryptography"}
