"""Roles: what columns and vectors are to those who look at rows."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from sghash import Collection
from sghash.collection.storage import manifest as manifests
from sghash.errors import BadFile, InvalidInput, NewerFormat, StorageError
from sghash.models import SignHashing


@pytest.fixture(scope="module")
def model():
    return SignHashing(6).fit(np.ones((2, 6), np.float32))


@pytest.fixture
def path(model, tmp_path):
    with Collection.create(tmp_path / "c", model) as collection:
        collection.add(np.eye(6, dtype=np.float32), metadata={"t": list("abcdef")})
    return tmp_path / "c"


def test_roles_stay_through_all_that_changes_a_collection(path, tmp_path):
    with Collection.open(path, writable=True) as collection:
        assert collection.roles == {} and collection.stats()["format_version"] == 2
        collection.describe(text="t", picture="2x3")
        collection.add(np.ones((1, 6), np.float32))
        collection.compact()
        collection.backup(tmp_path / "copy")
    for folder in (path, tmp_path / "copy"):
        opened = Collection.open(folder)
        assert opened.roles == {"text": "t", "picture": "2x3"} and len(opened) == 7
        assert opened.stats()["format_version"] == 6
    with Collection.open(path, writable=True) as collection:
        collection.describe()
        # What has no roles any more is what earlier programs read.
        assert collection.roles == {} and collection.stats()["format_version"] == 2


@pytest.mark.parametrize(
    "roles", [{"text": "no"}, {"image": ""}, {"label": "t:values"}, {"picture": "2x2"},
              {"picture": "6"}, {"colour": "t"}, {"picture": "1x6x1"}, {"picture": "x"}]
)  # fmt: skip
def test_roles_that_rows_cannot_have_are_refused(path, roles):
    with Collection.open(path, writable=True) as collection:
        with pytest.raises(InvalidInput):
            collection.describe(**roles)
        assert collection.roles == {}
    with pytest.raises(StorageError, match="writable"):
        Collection.open(path).describe(text="t")


def test_a_manifest_with_strange_roles_is_damaged(path, monkeypatch):
    with Collection.open(path, writable=True) as collection:
        collection.describe(text="t")
    good = manifests.read_manifest(path)
    for strange in ({"text": 5}, {"colour": "t"}, {"picture": "9x9"}, [], {"text": "a b"}):
        shutil.copy(path / "manifest.json", path / "kept")
        manifests.write_manifest(path, manifests.replace(good, roles=strange))
        with pytest.raises(BadFile):
            manifests.read_manifest(path)
        shutil.move(path / "kept", path / "manifest.json")
    assert json.loads((path / "manifest.json").read_text().splitlines()[0])["format_version"] == 6
    monkeypatch.setattr(manifests, "VERSION", 4)
    with pytest.raises(NewerFormat, match="upgrade"):
        manifests.read_manifest(path)
