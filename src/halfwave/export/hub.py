"""Sharing trained operators: a folder, or a repository of the Hugging Face Hub, with the model and a card.

The model is the one sealed safetensors file of `halfwave.save`, so nothing is unpickled and a changed byte is found.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from halfwave.errors import InputError
from halfwave.export.card import write_card
from halfwave.export.source import find_model
from halfwave.training import load, save

if TYPE_CHECKING:
    from huggingface_hub import ModelHubMixin

MODEL, CARD = "model.safetensors", "README.md"
MISSING = "the hub needs the package huggingface_hub: pip install 'halfwave[hub]'"


def from_pretrained(source: str | Path, expect: str | None = None, **options: Any) -> nn.Module:
    """The model of a folder, of a model file, or of a repository ``"owner/name"`` of the hub, in evaluation mode.

    An `Operator` where normalizers were saved with it: fields in, fields out. `options` are those of
    `huggingface_hub` (revision, token, cache_dir, ...). InputError for a model of another class than `expect`.
    """
    path = Path(source)
    if path.exists():
        if options:
            raise ValueError(f"{path} is here: options of the hub ({', '.join(options)}) have nothing to act on")
        return load(find_model(path), expect)
    shared = _mixin().from_pretrained(str(source), **options)
    return load(shared.file, expect)  # type: ignore[attr-defined]


def save_pretrained(model: nn.Module, folder: str | Path, card: dict[str, str] | None = None) -> None:
    """The model and its card in a folder that `from_pretrained` reads; `card` are facts such as data and error."""
    folder = Path(folder)
    save(model, folder / MODEL)
    write_card(folder / CARD, model, card or {})


def push_to_hub(model: nn.Module, repo_id: str, card: dict[str, str] | None = None, **options: Any) -> str:
    """The same to a repository ``"owner/name"``; the address of the commit. `options` as in `huggingface_hub`."""
    shared: Any = _mixin()()
    shared.model, shared.card = model, card
    return str(shared.push_to_hub(repo_id, **options))


def _mixin() -> type[ModelHubMixin]:
    """A model as huggingface_hub's mixin wants it: how it is written to a folder, how one is found."""
    try:
        from huggingface_hub import ModelHubMixin, hf_hub_download
    except ImportError as error:
        raise InputError(MISSING) from error

    class Shared(ModelHubMixin):
        # Without arguments: the mixin would write them to a file of its own, and ours holds all there is.
        def __init__(self) -> None:
            self.model: nn.Module | None = None
            self.card: dict[str, str] | None = None
            self.file = Path()

        def _save_pretrained(self, save_directory: Path) -> None:
            assert self.model is not None
            save_pretrained(self.model, save_directory, self.card)

        @classmethod
        def _from_pretrained(cls, *, model_id: str, **options: Any) -> Shared:
            known = ("revision", "cache_dir", "force_download", "local_files_only", "token")
            found = cls()
            chosen = {name: options[name] for name in known if name in options}
            found.file = Path(hf_hub_download(model_id, MODEL, **chosen))
            return found

    return Shared
