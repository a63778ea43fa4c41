"""Model folders damaged with knowledge of their structure: refused in a sentence, or fully usable.

`python tests/stress/fuzz_models.py SEED N` damages N folders and prints what became of them.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import re
import struct
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as to_safetensors

from sghash import load_model
from sghash.errors import SghashError
from sghash.models import model_class
from sghash.models.contents import CONTENTS, _sizes

WIDTH, LENGTHS = 5, {"r": 4, "n": 3, "k": 4, "m": 6, "h": 4, "w": 4, "p": 2}
OPTIONS: dict[str, dict[str, Any]] = {
    "DeepSGH": {"n_bits": 12, "hidden": [4]},
    "GeneralSGH": {"n_bits": 12, "decoder": "two-layer"},
    "GenerativeQuantizer": {"n_bytes": 3},
    "PCAReconstruction": {"n_components": 3},
    "ProductQuantizer": {"n_parts": 2},
}
# What some models can do beside encoding and decoding.
NO_TABLES = re.compile("has no query tables|is not linear in the bits")
VERBS = (
    "bit_probabilities", "description_length", "query_tables",
    "sample_codes", "scales",
)  # fmt: skip
Tensors = dict[str, np.ndarray]


def make(name: str, rng: np.random.Generator) -> Any:
    """A model of class `name` with random numbers of the right shapes: quicker than to fit one."""
    model = model_class(name)(**OPTIONS.get(name, {"n_bits": 12}))
    model.n_features_in_ = WIDTH
    sizes = {**LENGTHS, **_sizes(model)}
    for attribute, wanted in CONTENTS[name].items():
        kind, *axes = wanted.split()
        shape = [int(axis) if axis.isdigit() else sizes[axis] for axis in axes]
        value: Any = rng.standard_normal(shape).astype(kind) if axes else 1.5
        setattr(model, attribute, value)
    for attribute, value in _exact(name, rng).items():
        setattr(model, attribute, value)
    if "history_" in model.recorded_names:
        model.history_ = {"step": [1.0, 2.0]}
    return model


def _exact(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """Attributes whose numbers are not free."""
    into, back = WIDTH * 12 + 12, 12 * WIDTH + WIDTH
    return {
        "KMeansHashing": {
            "part_bits_": np.array([6, 6], "<i4"), "part_widths_": np.array([2, 2], "<i4"),
            "centroids_": rng.standard_normal(256).astype("f4"),
        },
        "SignHashing": {"directions_": rng.standard_normal((WIDTH, 7)).astype("f4")},
        "SpectralHashing": {"bit_axis_": (np.arange(12) % 4).astype("<i4")},
        "ProductQuantizer": {
            "rotation_": np.eye(WIDTH, dtype="f4"), "part_widths_": np.array([3, 2], "<i4"),
        },
        "DeepSGH": {
            "encoder_layers_": [{"kind": "linear", "shape": [WIDTH, 12]}, {"kind": "tanh"}],
            "encoder_numbers_": rng.standard_normal(into).astype("f4"),
            "decoder_layers_": [
                {"kind": "sum", "parts": [[{"kind": "linear", "shape": [12, WIDTH]}]]}
            ],
            "decoder_numbers_": rng.standard_normal(back).astype("f4"),
        },
    }.get(name, {})  # fmt: skip


def strange(draw: random.Random, config: dict[str, Any]) -> Any:
    """A value that a careless or hostile program might write."""
    deep: Any = []
    for _ in range(draw.choice([3, 60])):
        deep = [deep]
    return draw.choice([
        None, True, -1, 0, 1, 2, 7, 12.0, 2.5, -(2**63), 2**31, 2**63, 10**40, 1e-320, 1e308,
        float("inf"), float("nan"), "", "12", "text", "\ud800", [], {}, [[1, 2]], {"a": [None]},
        deep, "SGH", "LSH", "cosine", "binary", copy.deepcopy(config.get("scalars")),
        [{"kind": "linear", "shape": [5, -12]}], [{"kind": "sum", "parts": [deep]}],
        [{"kind": "affine", "size": 2.5}], [{"kind": "relu"}] * 3,
    ])  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where everything stands in a nested value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in inside:
        found.append((*path, key))
        if isinstance(item, (dict, list)):
            found += places(item, (*path, key))
    return found


def damage_config(draw: random.Random, config: dict[str, Any]) -> None:
    # Rather what the model is made of than what is refused at first sight.
    every = places(config)
    inner = [path for path in every if path[0] in ("options", "scalars") and path[1:]]
    path = draw.choice(inner if inner and draw.random() < 0.8 else every)
    holder: Any = config
    for key in path[:-1]:
        holder = holder[key]
    if draw.random() < 0.15:
        del holder[path[-1]]
    elif draw.random() < 0.3 and type(holder[path[-1]]) is int:
        holder[path[-1]] += draw.choice([-1, 1, 8, -20])
    else:
        holder[path[-1]] = strange(draw, config)


def damage_tensors(draw: random.Random, tensors: Tensors) -> None:
    if not tensors:
        return
    name, other = draw.choice(sorted(tensors)), draw.choice(sorted(tensors))
    array = tensors[name]
    big = np.finfo(array.dtype).max if array.dtype.kind == "f" else 2**31 - 1
    changes = [
        lambda: array.T, lambda: array[:-1], lambda: array[None], lambda: array.ravel(),
        lambda: array[..., :0], lambda: np.concatenate([array, array]), lambda: array * 0,
        lambda: array * 0 + big, lambda: -array - 1, lambda: array.astype("f8"),
        lambda: array.astype("i4"), lambda: array.astype("u1"), lambda: array.astype("f2"),
        lambda: array.astype("?"), lambda: array.reshape(-1)[:1], lambda: array.reshape(-1)[0],
        lambda: tensors[other], lambda: np.zeros((1 << 20, 0), array.dtype),
        lambda: np.resize(array, (*array.shape[:-1], array.shape[-1] + 8)) if array.ndim else array,
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        tensors[name] = np.ascontiguousarray(draw.choice(changes)())
    if draw.random() < 0.05:
        tensors["strange"] = tensors.pop(name)


def fingerprint(config: dict[str, Any], tensors: Tensors) -> str:
    """The fingerprint that such a model would have, had it been saved."""
    options, scalars = config.get("options"), config.get("scalars")
    n_bits = options.get("n_bits") if isinstance(options, dict) else None
    head = {"model": config.get("model"), "n_bits": n_bits, "scalars": scalars}
    digest = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def damage_header(draw: random.Random, content: bytes) -> bytes:
    """Another JSON in front of the same numbers."""
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    path = draw.choice(places(header))
    holder: Any = header
    for key in path[:-1]:
        holder = holder[key]
    odd = ["F64", "BF16", "F8_E4M3", "I64", "bogus", [-1], [2**63, 2**63], [0, 2**64], 0, -5, 3]
    holder[path[-1]] = draw.choice([*odd, strange(draw, {})])
    text = json.dumps(header).encode()
    length = len(text) if draw.random() < 0.9 else draw.choice([0, 1, 2**40, 2**63, size + 3])
    return struct.pack("<Q", length) + text + content[8 + size :]


def damage_bytes(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(max(1, len(changed)))
        cut = draw.choice([0, 1, 8, 1000])
        changed[at : at + cut] = draw.choice([b"", b"\0", b"[" * 50, b"\xff" * 8, b'"a":9e999,'])
    return bytes(changed)


def use(model: Any, rng: np.random.Generator) -> None:
    """Everything that a loaded model must do, or refuse by an error of ours."""
    width = int(model.n_features_in_)
    for n in (1, 20):
        for rows in (np.zeros((n, width), "f4"), rng.random((n, width), "f4")):
            codes = model.encode(rows)
            assert len(codes) == n, codes.shape
            try:
                decoded = model.decode(codes)
            except SghashError as error:
                if "no decoder" not in str(error):
                    raise
            else:
                assert decoded.shape == (n, width), decoded.shape
            for verb in VERBS:
                if not hasattr(model, verb):
                    continue
                try:
                    getattr(model, verb)(rows)
                except SghashError as error:
                    if verb != "query_tables" or not NO_TABLES.search(str(error)):
                        raise


def damaged(draw: random.Random, config: dict[str, Any], tensors: Tensors) -> tuple[bytes, bytes]:
    """Both files of a folder, damaged in one of several ways."""
    kind = draw.choice(["config", "config", "tensors", "tensors", "both", "header", "bytes"])
    if kind in ("config", "both"):
        for _ in range(draw.choice([1, 1, 2, 4])):
            damage_config(draw, config)
    if kind in ("tensors", "both"):
        damage_tensors(draw, tensors)
        if isinstance(config.get("tensors"), dict):
            config["tensors"] = {k: [a.dtype.str, list(a.shape)] for k, a in tensors.items()}
    if draw.random() < 0.95:
        config["fingerprint"] = fingerprint(config, tensors)
    files = [json.dumps(config).encode(), to_safetensors(tensors)]
    if kind == "header":
        files[1] = damage_header(draw, files[1])
    if kind == "bytes":
        which = draw.randrange(2)
        files[which] = damage_bytes(draw, files[which])
    return files[0], files[1]


def run(seed: int, n: int) -> dict[str, int]:
    """Damage `n` folders; how many were refused, and how many could be used all the same."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(place)
        whole = [saved(make(name, rng), folder / name) for name in sorted(CONTENTS)]
        for number in range(n):
            config, tensors = copy.deepcopy(whole[number % len(whole)])
            first, second = damaged(draw, config, tensors)
            (folder / "config.json").write_bytes(first)
            (folder / "model.safetensors").write_bytes(second)
            try:
                counts[fate(folder, rng)] += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}, folder {number}: {config}") from error
    return dict(counts)


def saved(model: Any, folder: Path) -> tuple[dict[str, Any], Tensors]:
    """What the files of a whole model hold; it must be one that can be loaded and used."""
    model.save(folder)
    use(load_model(folder), np.random.default_rng(0))
    config = json.loads((folder / "config.json").read_text())
    return config, {name: getattr(model, name) for name in config["tensors"]}


def fate(folder: Path, rng: np.random.Generator) -> str:
    """What becomes of a folder; anything but an error of ours passes through."""
    try:
        model = load_model(folder)
    except SghashError:
        return "refused"
    try:
        use(model, rng)
    except SghashError:
        return "refused when used"
    return "used"


if __name__ == "__main__":
    print(run(int(sys.argv[1]), int(sys.argv[2])))
