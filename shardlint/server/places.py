"""Where a document counts as lying: its imports and its settings are those of that place."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from pygls.uris import to_fs_path

#: Where jupyterlab-lsp says that the texts of notebooks are.
_OF_JUPYTER = ".virtual_documents"


def place_of(uri: str, folder: Path) -> Path:
    """Where a document lies by what editors call it. One without a name lies in ``folder``, as a file that nothing can
    import; the text of a notebook where the notebook is."""
    path = Path(to_fs_path(uri) or "")
    if not path.name:
        return folder / quote(uri, safe="")
    if path.suffix != ".ipynb":
        return path
    parts = [part for part in path.parts if part != _OF_JUPYTER]
    return Path(*parts)
