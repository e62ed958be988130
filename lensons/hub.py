"""Finding a model's files: a folder, this machine's hub cache, or the hub. The only module that knows the hub."""

import os
import re
from pathlib import Path

from lensons.errors import InputError, ModelError
from lensons.toy import toy_folder

HUB_IDS = {
    "gpt2": "openai-community/gpt2",
    "gpt2-small": "openai-community/gpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "gpt2-large": "openai-community/gpt2-large",
    "gpt2-xl": "openai-community/gpt2-xl",
    "distilgpt2": "distilbert/distilgpt2",
}
ALLOWED = (
    'Allowed are "gpt2", "toy", a folder in Hugging Face format, a Hugging Face name such as '
    '"EleutherAI/pythia-70m", or a HookedTransformer or TransformerBridge that you already have.'
)
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_HUB_FILES = ["*.json", "*.safetensors", "merges.txt", "vocab.txt"]


def locate(name: str, revision: str | None) -> tuple[Path, str, str | None]:
    """The folder with the model's files, what to call the model, and its revision on the hub."""
    if revision is not None and (not isinstance(revision, str) or not revision.strip()):
        raise InputError(f"revision={revision!r:.100} was given. Allowed are a branch, a tag or a commit, as text.")
    # os.path, unlike pathlib, answers False for what can be no path at all: "~nobody", 5,000 letters, a NUL.
    path = os.path.expanduser(name)
    if revision is not None and name not in HUB_IDS and (name == "toy" or os.path.isdir(path)):
        raise InputError(
            f"revision={revision!r:.100} was given for {name!r:.100}, which is not on the hub. Only a model from the "
            "hub has revisions. Leave it out."
        )
    if name == "toy":
        return toy_folder(), "toy", None
    if name in HUB_IDS:
        folder = _from_hub(name, HUB_IDS[name], revision)
        return folder, "gpt2" if name == "gpt2-small" else name, folder.name
    if name and os.path.isdir(path):
        return Path(path), Path(path).resolve().name, None
    if os.path.isfile(path):
        raise ModelError(
            f"{name!r:.200} is a file. A model is a folder in Hugging Face format. Give the folder it is in."
        )
    if _HUB_ID.fullmatch(name) and len(name) <= 96 and not os.path.exists(path):
        folder = _from_hub(name, name, revision)
        return folder, name, folder.name
    raise ModelError(f'There is no model or folder {name!r:.200}. {ALLOWED} To go on without a network, use "toy".')


def _from_hub(name: str, hub_id: str, revision: str | None) -> Path:
    """The snapshot in this machine's hub cache; downloaded first, with a progress bar, where it is not there."""
    from huggingface_hub import snapshot_download

    tried = []
    # "gpt2" is the same repository's older name, and what older programs left in the cache.
    for cached_id in dict.fromkeys((hub_id, name)):
        try:
            folder = Path(snapshot_download(cached_id, revision=revision, local_files_only=True))
        except Exception as error:  # the hub client has a dozen kinds, all of which mean "not in the cache"
            tried.append(f"the local cache for {cached_id} ({first_line(error)})")
            continue
        if (folder / "config.json").is_file() and weight_files(folder):
            return folder
        tried.append(f"the local cache for {cached_id} (incomplete: {folder})")
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        tried.append("no download, since HF_HUB_OFFLINE is set")
    else:
        try:
            folder = Path(snapshot_download(hub_id, revision=revision, allow_patterns=_HUB_FILES))
        except Exception as error:
            tried.append(f"the Hugging Face hub ({type(error).__name__}: {first_line(error)})")
        else:
            if (folder / "config.json").is_file() and weight_files(folder):
                return folder
            tried.append(f"the Hugging Face hub ({hub_id} has no config.json with *.safetensors)")
    raise ModelError(
        f'{name!r} could not be had. Tried: {"; ".join(tried)}. Two ways on: the model "toy" needs no network; '
        "or give the folder of a copy that has config.json, model.safetensors and the tokenizer's files."
    )


def first_line(error: BaseException) -> str:
    """What an error of somebody else's says, short."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def weight_files(folder: Path) -> list[Path]:
    """The files with the weights; a large model has several."""
    return sorted(folder.glob("*.safetensors"))
