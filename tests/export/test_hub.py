"""Sharing: a folder and a stand-in for the hub give back the same model, with a card, and nothing is unpickled."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from exported_models import build

import halfwave as hw
from halfwave.data import Normalizer
from halfwave.errors import InputError
from halfwave.export.hub import from_pretrained, push_to_hub, save_pretrained
from halfwave.training import Operator


def _operator():
    model, grid = build("2-D, two blocks")
    operator = Operator(model, Normalizer(torch.tensor([1.0]), torch.tensor([2.0])), None).eval()
    return operator, torch.randn(2, 1, *grid)


def _ask(model, x):
    with torch.no_grad():
        return model(x)


def test_a_folder_gives_the_model_back(tmp_path):
    operator, x = _operator()
    save_pretrained(operator, tmp_path / "shared", {"data": "Darcy, 1000 samples", "error": "L2 0.011"})
    assert torch.equal(_ask(hw.FNO.from_pretrained(tmp_path / "shared"), x), _ask(operator, x))
    card = (tmp_path / "shared" / "README.md").read_text()
    assert "library_name: halfwave" in card
    assert "| data | Darcy, 1000 samples |" in card
    assert "| precision | full (" in card
    assert "| certificate | not recorded |" in card
    with pytest.raises(InputError, match="holds a FNO: expected SFNO"):
        hw.SFNO.from_pretrained(tmp_path / "shared")
    with pytest.raises(ValueError, match="a card has no 'colour'"):
        save_pretrained(operator, tmp_path / "other", {"colour": "red"})


def test_a_pickle_is_refused(tmp_path):
    torch.save({"weight": torch.ones(1)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError):
        hw.FNO.from_pretrained(tmp_path)


def test_the_hub_by_a_stand_in(tmp_path, monkeypatch):
    """Its two calls out, upload and download, go to a folder instead."""
    remote = tmp_path / "remote"

    class Api:
        def __init__(self, *_, **__): ...

        def create_repo(self, repo_id, **_):
            return SimpleNamespace(repo_id=repo_id)

        def upload_folder(self, repo_id, folder_path, **_):
            shutil.copytree(folder_path, remote / repo_id)
            return f"commit of {repo_id}"

    def download(repo_id, filename, **_):
        found = remote / repo_id / filename
        if not found.exists():
            raise huggingface_hub.errors.HfHubHTTPError("404", response=SimpleNamespace(headers={}, request=None))
        return str(found)

    from huggingface_hub import hub_mixin

    monkeypatch.setattr(hub_mixin, "HfApi", Api)
    monkeypatch.setattr(hub_mixin, "hf_hub_download", download)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)

    operator, x = _operator()
    assert push_to_hub(operator, "us/darcy", {"error": "L2 0.011"}) == "commit of us/darcy"
    assert {path.name for path in (remote / "us/darcy").iterdir()} == {"README.md", "model.safetensors"}
    assert "L2 0.011" in (remote / "us/darcy" / "README.md").read_text()
    assert torch.equal(_ask(from_pretrained("us/darcy"), x), _ask(operator, x))
    operator.model.push_to_hub("us/bare")
    assert torch.equal(_ask(hw.FNO.from_pretrained("us/bare"), x), _ask(operator.model, x))
    assert not Path("us").exists()
