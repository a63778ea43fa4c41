"""Models with the methods of Hugging Face's Hub, without a network."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sghash.errors import InvalidInput
from sghash.models import ITQ, LSH

pytestmark = pytest.mark.adapters
hub = pytest.importorskip("huggingface_hub", reason="needs huggingface-hub")
from sghash.adapters.frameworks.hub import HubModel  # noqa: E402


@pytest.fixture
def vectors(rng):
    return rng.standard_normal((60, 12)).astype(np.float32)


def test_a_model_is_saved_with_a_card_and_loaded(vectors, tmp_path):
    model = LSH(20, random_state=0).fit(vectors)
    HubModel(model).save_pretrained(tmp_path / "mine", model_card_kwargs={"repo_id": "me/mine"})
    names = sorted(path.name for path in (tmp_path / "mine").iterdir())
    assert names == ["README.md", "config.json", "model.safetensors"]
    again = HubModel.from_pretrained(str(tmp_path / "mine")).model
    assert again.fingerprint_ == model.fingerprint_
    np.testing.assert_array_equal(again.encode(vectors), model.encode(vectors))
    card = hub.ModelCard.load(tmp_path / "mine" / "README.md")
    assert card.data.library_name == "sghash" and "LSH" in card.data.tags
    for said in (model.fingerprint_, 'from_pretrained("me/mine")', "20 bits", "(n, 12) float32"):
        assert said in card.content


def test_a_card_that_is_there_stays_and_a_model_is_replaced(vectors, tmp_path):
    HubModel(LSH(20, random_state=0).fit(vectors)).save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("mine")
    other = ITQ(8, random_state=0).fit(vectors)
    HubModel(other).save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert HubModel.from_pretrained(tmp_path).model.fingerprint_ == other.fingerprint_


def test_the_program_of_the_card_runs(vectors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = HubModel(LSH(16, random_state=0).fit(vectors))
    made.save_pretrained("here", model_card_kwargs={"repo_id": "here"})
    block = (tmp_path / "here" / "README.md").read_text().split("```python\n")[1].split("```")[0]
    names = {"vectors": vectors}
    exec(block, names)
    np.testing.assert_array_equal(names["codes"], made.model.encode(vectors))


def test_what_is_pushed_is_what_is_saved(vectors, monkeypatch):
    """The upload is the Hub's; what it is given is ours."""
    sent = {}

    def upload(self, *, folder_path, **unused):
        sent.update({path.name: path.read_bytes() for path in folder_path.iterdir()})

    def create(self, *, repo_id, **unused):
        return SimpleNamespace(repo_id=repo_id)

    monkeypatch.setattr(hub.HfApi, "create_repo", create)
    monkeypatch.setattr(hub.HfApi, "upload_folder", upload)
    HubModel(LSH(16, random_state=0).fit(vectors)).push_to_hub("me/mine")
    assert {"README.md", "config.json", "model.safetensors"} <= set(sent)


def test_bad_input_is_a_sentence(tmp_path):
    for wrong in (LSH(8), None):
        with pytest.raises(InvalidInput, match="fitted model"):
            HubModel(wrong)
