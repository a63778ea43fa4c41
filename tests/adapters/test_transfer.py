"""`sghash push` and `pull`: whole, repeatable, and without secrets in what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sghash import Collection
from sghash.adapters import transfer
from sghash.adapters.transfer import Transferred, open_place, place_of, pull, push
from sghash.cli import main
from sghash.errors import InvalidInput
from sghash.models import LSH

pytestmark = pytest.mark.adapters


@pytest.fixture
def model(rng):
    return LSH(40, random_state=0).fit(rng.standard_normal((50, 8)).astype(np.float32))


@pytest.fixture
def shelf(tmp_path, model, rng):
    with Collection.create(tmp_path / "shelf", model) as made:
        made.add(rng.standard_normal((500, 8)).astype(np.float32))
        made.delete([3, 4])
        yield made


@pytest.fixture(params=["duckdb", "sqlite", "postgresql", "milvus", "faiss"])
def place(request, tmp_path):
    if request.param == "postgresql":
        folder = request.getfixturevalue("server").address.split()[0].removeprefix("host=")
        return place_of(f"postgresql:///postgres?host={folder}&user=tester")
    return place_of(f"{request.param}:{tmp_path / 'codes.db'}")


def test_there_and_back(shelf, place, table, model, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(transfer, "BLOCK_ROWS", 70)
    assert push(shelf, place, table, dry_run=True) == Transferred(498, 0, 0)
    with pytest.raises(InvalidInput, match=r"no (table of codes|database)"):
        open_place(place, table)
    seen: list = []
    told = lambda *step: seen.append(step)  # noqa: E731
    assert push(shelf, place, table, callback=told) == Transferred(498, 0, 0)
    first = 498 if place.kind == "faiss" else 70
    assert seen[0] == (first, 498) and seen[-1] == (498, 498)
    assert push(shelf, place, table) == Transferred(0, 0, 498)
    shelf.upsert(rng.standard_normal((2, 8)).astype(np.float32), [7, 3])
    assert push(shelf, place, table, dry_run=True) == (1, 1, 497)
    assert push(shelf, place, table) == (1, 1, 497)
    with open_place(place, table) as index:
        np.testing.assert_array_equal(index.ids, shelf.ids)
        np.testing.assert_array_equal(index.codes, shelf.get(shelf.ids).codes)
    with Collection.create(tmp_path / "back", model) as back:
        assert pull(place, table, back).added == 499
        assert pull(place, table, back) == (0, 0, 499)
        np.testing.assert_array_equal(back.get(shelf.ids).codes, shelf.get(shelf.ids).codes)
        # What was changed in the table since comes too.
        with open_place(place, table) as index:
            index.upsert(~index.codes_of([9, 10]), [9, 10])
            right = index.codes
        assert pull(place, table, back, dry_run=True) == (0, 2, 497)
        assert pull(place, table, back) == (0, 2, 497)
        np.testing.assert_array_equal(back.get(back.ids).codes, right)
    other = LSH(40, random_state=1).fit(rng.standard_normal((50, 8)).astype(np.float32))
    with Collection.create(tmp_path / "other", other) as wrong:
        for call in (lambda: push(wrong, place, table), lambda: pull(place, table, wrong)):
            with pytest.raises(InvalidInput, match="another model"):
                call()


def test_what_is_deleted_while_codes_are_pushed_is_brought_all_the_same(
    shelf, tmp_path, monkeypatch
):
    """They are those of one moment; the next push is of the next."""
    monkeypatch.setattr(transfer, "BLOCK_ROWS", 70)
    place = place_of(f"sqlite:{tmp_path / 'codes.db'}")

    def told(done, n):
        if done == 70:
            shelf.delete([400, 401])

    assert push(shelf, place, "codes", callback=told) == Transferred(498, 0, 0)
    assert push(shelf, place, "codes") == Transferred(0, 0, 496)


def test_a_code_that_is_pulled_leaves_key_and_metadata(tmp_path, model, rng):
    vectors = rng.standard_normal((6, 8)).astype(np.float32)
    about = {"size": [1, None, 3], "name": ["a", None, "c"], "never": [None, None, 0.5]}
    place = place_of(f"sqlite:{tmp_path / 'codes.db'}")
    with Collection.create(tmp_path / "keyed", model) as shelf:
        shelf.add(vectors[:3], ["k0", "k1", "k2"], about)
        shelf.add(vectors[3:], metadata={"size": [4, 5, 6]})
        push(shelf, place, "codes")
        before = shelf.get(shelf.ids)
        with open_place(place, "codes") as index:
            index.upsert(~index.codes_of([0, 1, 4]), [0, 1, 4])
            right = index.codes
        assert pull(place, "codes", shelf) == (0, 3, 3)
        after = shelf.get(shelf.ids)
        np.testing.assert_array_equal(after.codes, right)
        assert after.keys == before.keys and after.metadata == before.metadata


def run(*arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return stop.value.code


def test_the_verbs(shelf, tmp_path, model, capsys):
    model.save(tmp_path / "model")
    address = f"duckdb:{tmp_path / 'codes.db'}"
    assert run("push", tmp_path / "shelf", address, "--dry-run") == 0
    assert "498 rows would be added" in capsys.readouterr().out
    assert not (tmp_path / "codes.db").exists()
    assert run("push", tmp_path / "shelf", address) == 0
    assert run("pull", address, tmp_path / "back") == 1
    assert "give its --model" in capsys.readouterr().err
    dry = ("pull", address, tmp_path / "back", "--model", tmp_path / "model", "--dry-run")
    assert run(*dry) == 0 and not (tmp_path / "back").exists()
    assert "498 rows would be added, 0 changed" in capsys.readouterr().out
    assert run("pull", address, tmp_path / "back", "--model", tmp_path / "model") == 0
    assert "498 rows added" in capsys.readouterr().out
    assert len(Collection.open(tmp_path / "back")) == 498


@pytest.mark.parametrize(
    "address",
    [
        "mysql://me:sEcReT@host/x",
        "sEcReT",
        "duckdb:",
        "postgresql://me:sEcReT@127.0.0.1:1/x",
        "postgresql://me:pa@sEcReT@127.0.0.1:1/x",
    ],
)
def test_secrets_are_not_repeated(address, shelf, tmp_path, capsys):
    assert run("push", tmp_path / "shelf", address) == 1
    said = capsys.readouterr()
    assert "sEcReT" not in said.out + said.err and said.err.startswith("sghash: ")


ADDRESS = "postgresql://me:sEcReT@127.0.0.1:1/x"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("push", ADDRESS, "shelf"), 1),
        (("push", "shelf", "duckdb:x.db", "--table", ADDRESS), 1),
        (("push", "shelf", "sqlite:x.db", ADDRESS), 2),
        (("pull", "shelf", ADDRESS), 1),
        (("pull", ADDRESS, "shelf", "--table", ADDRESS), 1),
        (("pull", ADDRESS, "shelf", ADDRESS, ADDRESS), 2),
        (("push", ADDRESS), 2),
    ],
)
def test_arguments_in_the_wrong_order_are_not_repeated(
    arguments, code, shelf, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == code
    said = capsys.readouterr()
    assert "sEcReT" not in said.out + said.err and said.err


def test_a_place_does_not_show_its_address():
    assert "sEcReT" not in repr(place_of(ADDRESS)) + str([place_of(ADDRESS)])


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql", "milvus", "faiss"])
def test_a_push_that_is_killed_is_completed_by_the_next(kind):
    """A few of the kills of `kills.py`, in a process that has no threads yet."""
    server = "1" if kind in ("postgresql", "milvus") else "0"
    program = [sys.executable, str(Path(__file__).with_name("kills.py")), "--client", "2"]
    done = subprocess.run(
        [*program, "--server", server, "--only", kind], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"{2 + int(server)} kills, 0 lost, 0 twice\n")
